"""Names that are of one sort, of which people have one at a time: databases, editors, clouds.

"We use Postgres" and "we use MySQL" are about one attribute, "we use Postgres"
and "we use Redis" are not. Sorts of which a project has many (languages) are
left out of `EXCLUSIVE` and serve only to find the key of a fact.
"""

from __future__ import annotations

_SORTS = """
database: postgres postgresql mysql mariadb sqlite oracle mssql sqlserver cockroachdb mongodb
    couchdb dynamodb cassandra firestore
cache: redis memcached valkey
cloud: aws gcp azure hetzner digitalocean heroku ovh
ci: jenkins circleci travis buildkite teamcity
package-manager: npm yarn pnpm pip poetry pipenv uv conda
editor: vscode vim neovim emacs pycharm intellij sublime nano zed
os: windows macos linux ubuntu debian fedora freebsd
queue: rabbitmq kafka sqs nats pulsar
orchestrator: kubernetes nomad ecs
web-framework: django flask fastapi rails laravel express
frontend-framework: react vue angular svelte
test-runner: pytest unittest jest mocha vitest
indentation: tabs spaces
units: metric imperial
shell: bash zsh fish powershell
browser: chrome firefox safari edge brave
version-control: git mercurial svn perforce
code-host: github gitlab bitbucket gitea
runtime: node nodejs deno bun jvm
language: python javascript typescript java kotlin rust go ruby php scala elixir haskell swift
    c++ c#
payment-provider: stripe paypal adyen braintree
color: red blue green yellow orange purple pink brown black white grey gray
frequency: hourly daily weekly biweekly fortnightly monthly quarterly yearly annually
"""


def _read(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    sort = ""
    for line in text.strip().splitlines():
        name, colon, names = line.partition(":")
        if colon:
            sort = name.strip()
        for word in (names if colon else line).split():
            table.setdefault(word, sort)
    return table


SORTS = _read(_SORTS)
"""Lower-case name → its sort."""

EXCLUSIVE = frozenset(SORTS.values()) - {"language", "runtime", "color", "browser", "os", "shell"}
"""Sorts of which one name excludes another when the same people say they use it."""
