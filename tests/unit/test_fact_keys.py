"""One thing has one key however it is said, and two things have two: a later value takes its place."""

from __future__ import annotations

import pytest

from agentmem.living.facts import extract

ONE_THING = [
    ("We use Postgres 15.", "Our database is MySQL."),
    ("We deploy with Helm.", "Deploys are done with Kustomize."),
    ("Logs are kept for 14 days.", "We keep logs for 30 days."),
    ("The repo is private.", "The repo is public."),
    ("My manager is called Odile.", "My manager is Sam."),
    ("My manager's name is Odile.", "Sam is my manager."),
    ("I live in Ghent.", "I moved to Porto."),
    ("The billing code lives in services/billing.", "The billing code is in services/money."),
    ("Our CI runs on Buildkite.", "We switched from Jenkins to GitHub Actions."),
    ("Deploys go out on Thursdays.", "We deploy every Tuesday."),
    ("The on-call engineer this week is Bram.", "Tomasz is on call this week."),
    ("The checkout service is owned by Priya.", "Lena is responsible for the checkout service."),
    ("Uploads are limited to 10 MB.", "The upload limit is 20 MB."),
    ("Sessions time out after 30 minutes.", "The session timeout is 20 minutes."),
    ("I work at Acme.", "I've worked at Bosch for six years."),
    ("My son is 6 years old.", "My son is 7."),
    ("My dog is called Rex.", "We have a dog named Biscuit."),
    ("Tests are run with pytest.", "We test with unittest."),
    ("The launch is planned for 15 September.", "The launch is on 3 October."),
    ("We release every two weeks.", "Releases ship every week."),
    ("My wife, Noor, is a teacher.", "My wife's name is Ana."),
    ("Grafana listens on port 3000.", "The port of Grafana is 3001."),
    ("Search belongs to the discovery team.", "The owner of search is Kim."),
    ("The build takes 12 minutes.", "Builds take 9 minutes."),
    ("The rent is 900 euros.", "My rent is 950 euros a month."),
    ("The maximum payload size is 2 MB.", "The max payload size is 4 MB."),
    ("Staging costs 400 euros a month.", "The price of staging is 300 euros a month."),
]

TWO_THINGS = [
    ("I'm allergic to peanuts.", "I'm allergic to cats."),
    ("My daughter loves dinosaurs.", "My daughter loves pizza."),
    ("The staging database is Postgres.", "The production database is MySQL."),
    ("We use Postgres for billing.", "We use MySQL for analytics."),
    ("I speak Italian.", "I speak Dutch."),
    ("We use Sentry for error tracking.", "We use Datadog for metrics."),
    ("The backup region is eu-west-1.", "The primary region is us-east-1."),
    ("Anna is our product manager.", "Bob is our production manager."),
    ("My son is 6.", "My daughter is 9."),
    ("Backups start at 3am.", "Backups run every six hours."),
    ("The repo is private.", "The repo is archived."),
    ("My brother lives in Oslo.", "I live in Ghent."),
    ("The code freeze starts on 20 December.", "The code freeze ends on 5 January."),
    ("We deploy with Helm.", "We build with Bazel."),
    ("In production we use Postgres.", "In staging we use SQLite."),
    ("Standup is at 9:45.", "The meeting is at 10:00."),
    ("The frontend is written in TypeScript.", "The backend is written in Go."),
]


def key(text: str) -> str:
    return extract(text).facts[0].key


@pytest.mark.parametrize(("first", "second"), ONE_THING)
def test_a_later_value_has_the_key_of_the_earlier_one(first: str, second: str) -> None:
    assert key(first) == key(second)


@pytest.mark.parametrize(("first", "second"), TWO_THINGS)
def test_what_is_true_together_has_two_keys(first: str, second: str) -> None:
    assert key(first) != key(second)
