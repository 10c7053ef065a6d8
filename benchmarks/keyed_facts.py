"""Pairs of statements about one attribute or two: C contradicts, S supersedes, N neither.

The rules were developed with the first list. The second was written afterwards, to measure: when
a pair of it leads to a change of the rules, it belongs to the first list from then on.
"""

from __future__ import annotations

DEVELOPED = """
C|The database is Postgres 15.|The database is MySQL 8.
C|We use Postgres 15|We use Postgres 14
C|We use Postgres for the main database|Our primary db is MySQL
C|The rate limit is 100 requests per minute|The API rate limit is 500 requests per minute
N|The rate limit is 100 requests per minute|The rate limit is 6,000 requests per hour
N|The upload limit is 900 seconds|The upload limit is 15 minutes
C|The upload timeout is 900 seconds|Uploads time out after 10 minutes
C|Deploys go out on Thursdays|Deploys go out on Mondays
C|Deploys go out on Thursdays|We deploy every Tuesday
N|Deploys go out on Thursdays|We deploy every Thursday
C|Ana lives in Lima|Ana lives in Berlin
C|My sister's name is Ana|My sister's name is Eva
C|My sister is called Ana|My sister's name is Eva
N|My sister's name is Ana|My brother's name is Bo
C|The CEO of Acme is Jane Doe|The CEO of Acme is John Smith
C|Jane Doe is the CEO of Acme|Acme's CEO is John Smith
N|Jane Doe is the CEO of Acme|Jane Doe is the CEO of Acme Corp since 2019
N|The staging limit is 100 MB|The production limit is 500 MB
N|The limit for staging is 100 MB|The limit for production is 500 MB
N|Redis runs on port 6379|Postgres runs on port 5432
C|Redis runs on port 6379|Redis listens on port 6380
N|Revenue in 2022 was 3 million|Revenue in 2023 was 4 million
C|Revenue in 2022 was $3 million|Revenue in 2022 was $4M
N|Revenue was $3 million|Revenue was $3,000,000
C|The deadline is 3 May|The deadline is May 5th
N|The deadline is 3 May 2024|The deadline is 2024-05-03
C|The deadline is 2024-05-03|The deadline is 2024-06-03
C|The project uses tabs for indentation|The project uses spaces for indentation
C|Feature flags are enabled in production|Feature flags are disabled in production
C|Dark mode is on by default|Dark mode is off by default
C|The API supports XML|The API does not support XML
N|The API supports XML|The API supports JSON
C|The service requires authentication|The service does not require authentication
C|All tests pass on main|Some tests fail on main
C|All tests pass|No tests pass
C|Bob always reviews pull requests|Bob never reviews pull requests
C|The build is green|The build is red
C|The meeting is at 3pm|The meeting is at 4pm
N|The meeting is at 3pm|The meeting is at 15:00
C|The meeting with Ana is on Monday at 3pm|The meeting with Ana is on Tuesday at 3pm
C|Python 3.11 is required|Python 3.12 is required
C|The minimum Python version is 3.11|The minimum Python version is 3.9
N|The minimum Python version is 3.11|The maximum Python version is 3.13
C|agentmem is licensed under MIT|agentmem is licensed under Apache-2.0
C|The office is in Paris|The office is in London
N|The Paris office has 30 people|The London office has 45 people
C|The Paris office has 30 employees|The Paris office has 45 employees
C|Tom was born in 1985|Tom was born in 1987
C|Tom's birthday is on 12 June|Tom's birthday is on June 21
N|Tom's birthday is on 12 June|Ana's birthday is on June 21
C|I am allergic to peanuts|I am not allergic to peanuts
C|My favorite color is blue|My favourite colour is green
C|I work at Google|I work at Microsoft
N|I like tea|I like coffee
C|I like coffee|I don't like coffee
C|I like coffee|I hate coffee
C|The server has 16 GB of RAM|The server has 32 GB of RAM
N|The server has 16 GB of RAM|The server has 16384 MB of RAM
C|The subscription costs $20 per month|The subscription costs $25 per month
N|The subscription costs $20 per month|The subscription costs $240 per year
C|Tickets cost 15 euros|Tickets cost €18
C|The default branch is main|The default branch is master
C|The default branch is called develop|The default branch is main
C|Logs are kept for 30 days|Logs are kept for 90 days
C|Log retention is 30 days|Logs are retained for 90 days
C|The cache TTL is 5 minutes|The cache TTL is 10 minutes
N|The cache TTL is 5 minutes|The cache TTL is 300 seconds
C|Backups run at 2am|Backups run at 4am
C|Backups are encrypted|Backups are not encrypted
C|Backups are encrypted|Backups are unencrypted
N|Backups are not encrypted|Backups are unencrypted
C|Payments are handled by Stripe|Payments are handled by Adyen
C|We host on AWS|We host on Azure
C|Our cloud provider is AWS|Our cloud provider is GCP
C|The team has 5 engineers|The team has 7 engineers
N|The team has five engineers|The team has 5 engineers
C|The team lead is Maria|The team lead is Peter
C|Maria leads the platform team|Peter leads the platform team
N|Maria leads the platform team|Peter leads the billing team
C|Sarah's phone number is 555-1234|Sarah's phone number is 555-9876
C|The wifi password is hunter2|The wifi password is swordfish
C|The capital of Australia is Canberra|The capital of Australia is Sydney
N|The capital of Australia is Canberra|The capital of France is Paris
C|Canberra is the capital of Australia|Sydney is the capital of Australia
C|Water boils at 100 degrees Celsius|Water boils at 90 degrees Celsius
C|The Eiffel Tower is 330 metres tall|The Eiffel Tower is 300 metres tall
N|The Eiffel Tower is about 330 metres tall|The Eiffel Tower is 324 metres tall
C|Kubernetes 1.29 is the cluster version|The cluster version is 1.27
C|The cluster runs Kubernetes 1.29|The cluster runs Kubernetes v1.27
N|The cluster runs Kubernetes 1.29|The cluster runs Kubernetes 1.29.3
C|The app is written in Go|The app is written in Rust
C|Max file size is 10MB|Maximum file size is 25 MB
C|max_connections = 100|max_connections = 200
C|timeout: 30s|timeout: 60s
N|timeout: 30s|retries: 3
C|The retry count is 3|The retry count is 5
N|The retry count is 3|The retry delay is 5 seconds
C|Lena is vegetarian|Lena is not vegetarian
C|Lena is a vegetarian|Lena eats meat
C|Lena is married|Lena is single
C|The door code is 4521|The door code is 9910
C|The store opens at 9am|The store opens at 10am
N|The store opens at 9am|The store closes at 6pm
C|Version 2.3 is the latest release|The latest release is version 2.4
C|The latest release is v2.3|The latest release is 2.4.0
C|The package was released in March 2023|The package was released in April 2023
C|80% of users are on mobile|60 percent of users are on mobile
N|80% of users are on mobile|eighty percent of users are on mobile
S|We use Postgres|We moved to MySQL
S|We use Postgres as our database|We switched to MySQL as our database
S|The limit is 900 seconds|The limit is now 600 seconds
S|Ana lives in Lima|Ana now lives in Berlin
S|Ana lives in Lima|Ana moved to Berlin
S|Ana works at Google|Ana no longer works at Google
S|Deploys go out on Thursdays|Since May deploys go out on Mondays
S|The team lead is Maria|Peter is now the team lead
S|The price is $20|The price was raised to $25
S|We used to host on AWS|We host on Azure
S|The database is Postgres 14|We upgraded the database to Postgres 15
S|We migrated from MySQL to Postgres|Our database is MySQL
S|The meeting is on Monday|The meeting was moved to Tuesday
S|I drink coffee|I stopped drinking coffee
S|The service runs on port 8080|As of June the service runs on port 9090
N|The API gateway is written in Go|The billing service is written in Rust
N|Ana lives in Lima|Ana works at Google
N|The frontend uses React 18|The backend uses Django 4.2
N|Bob has two cats|Bob has a dog
C|Bob has two cats|Bob has three cats
N|Should we use Postgres 15?|We use Postgres 14
N|If the limit is 900 seconds, uploads fail|The limit is 600 seconds
N|The read timeout is 30 seconds|The write timeout is 60 seconds
N|The weekly sync is on Monday|The monthly review is on Friday
N|The sky is blue|Grass is green
N|Alice prefers Vim|Bob prefers Emacs
C|Alice's preferred editor is Vim|Alice's preferred editor is Emacs
N|Berlin has 3.6 million people|Munich has 1.5 million people
C|Berlin has 3.6 million inhabitants|Berlin has 4.2 million inhabitants
C|The flight leaves from Terminal 1|The flight leaves from Terminal 2
C|The flight departs at 18:45|The flight departs at 19:15
C|Our CI runs on Jenkins|Our CI runs on CircleCI
C|The message broker is RabbitMQ|The message broker is Kafka
C|The primary region is us-east-1|The primary region is eu-west-1
N|The primary region is us-east-1|The backup region is eu-west-1
C|Pull requests need two approvals|Pull requests need one approval
C|Pull requests require 2 approvals|PRs need 1 approval
C|Merging to main is allowed|Merging to main is forbidden
C|The endpoint is public|The endpoint is private
C|Rust is memory safe|Rust is memory unsafe
C|The feature is available|The feature is unavailable
C|Weekly standup is optional|Weekly standup is mandatory
C|Emma is taller than Liam|Emma is shorter than Liam
C|The train arrives before noon|The train arrives after noon
C|The dog's name is Rex|The dog's name is Max
C|Kim's dog is named Rex|Kim's dog is called Max
C|Marta's flight lands at 7:40 pm|Marta's flight lands at 8:10 pm
C|The retention period for audit logs is one year|Audit logs are kept for six months
C|Our support hotline is open until 6pm|The support hotline closes at 8pm
C|The invoice total is €1,250.00|The invoice total is 1,450 euros
N|The invoice total is €1,250.00|The invoice amounts to 1250 EUR
C|Helen is 34 years old|Helen is 36 years old
C|Helen has two children|Helen has no children
C|Helen's husband is called Marco|Helen's husband is Luca
C|The billing service is written in Java|The billing service is implemented in Kotlin
C|Search is backed by Elasticsearch 8.11|Search is backed by Elasticsearch 7.17
C|The mobile app supports offline mode|The mobile app has no offline mode
C|Guests can export reports|Guests cannot export reports
C|Only admins can delete projects|Everyone can delete projects
C|The nightly job starts at midnight|The nightly job starts at 3 am
C|The sprint ends on Friday|The sprint ends on Wednesday
C|Our fiscal year starts in April|Our fiscal year begins in January
C|The SLA promises 99.9% uptime|The SLA promises 99.5% uptime
C|The contract expires on 31 December 2025|The contract expires on 30 June 2025
C|The contract expires on 31/12/2025|The contract expires in March 2026
N|The contract expires on 31 December 2025|The contract expires at the end of 2025
C|Mount Everest is 8,849 m high|Mount Everest is 8,611 m high
N|Mount Everest is 8,849 m high|Everest's height is 8.849 km
C|The speed limit is 50 km/h|The speed limit is 30 km/h
C|Paul drives a Volvo|Paul doesn't drive
N|Paul drives a Volvo|Paul's wife drives a Fiat
C|Paul speaks French|Paul doesn't speak French
N|Paul speaks French|Paul speaks German
C|Paul's office is on the third floor|Paul's office is on the fifth floor
C|The kickoff meeting takes place in room 204|The kickoff meeting takes place in room 310
C|Nora is the product owner|Felix is the product owner
C|The product owner is Nora|Felix is the product owner
N|The product owner is Nora|The scrum master is Felix
C|Telephone calls are recorded|Telephone calls are never recorded
C|Our warehouse is located in Rotterdam|Our warehouse is located in Hamburg
C|Orders over 50 euros ship free|Orders over 75 euros ship free
C|Passwords must have at least 12 characters|Passwords must have at least 8 characters
C|The max upload size is 5 GB|Uploads may be up to 2 GB
C|Sessions expire after 30 minutes|Sessions expire after 2 hours
N|Sessions expire after 120 minutes|Sessions expire after 2 hours
C|Sessions expire after 30 minutes|Sessions never expire
C|The app targets Android 13|The app targets Android 14
N|The app targets Android 13|The app targets iOS 17
C|The repo uses Poetry|The repo uses pip for dependencies
C|We write tests with pytest|We write tests with unittest
C|Frontend code is formatted with Prettier|Frontend code is not formatted with Prettier
C|Staging is deployed automatically|Staging is deployed manually
C|Staging runs in Frankfurt|Staging runs in Dublin
N|Staging runs in Frankfurt|Production runs in Dublin
C|Comments are visible to everyone|Comments are hidden from everyone
C|The endpoint returns JSON|The endpoint returns XML
C|The endpoint returns a 404 error|The endpoint returns a 500 error
C|Water freezes at 0 °C|Water freezes at 4 °C
C|Light travels at 299,792 km per second|Light travels at 150,000 km per second
C|The company was founded in 1998|The company was founded in 2004
C|The company has 1,200 employees|The company has 900 employees
N|The company has 1,200 employees|The company employs 1.2k people
C|Amsterdam is the capital of the Netherlands|The Hague is the capital of the Netherlands
N|Amsterdam is the capital of the Netherlands|Lisbon is the capital of Portugal
C|The Battle of Hastings took place in 1066|The Battle of Hastings took place in 1076
C|Marie Curie discovered radium|Marie Curie did not discover radium
C|Aspirin reduces fever|Aspirin does not reduce fever
C|Smoking increases the risk of cancer|Smoking decreases the risk of cancer
C|Gene A activates gene B|Gene A deactivates gene B
N|Drug X lowers blood pressure|Drug Y raises blood pressure
C|My dentist is Dr. Weber|My dentist is Dr. Klein
C|My train leaves at 6:15|My train leaves at 6:45
C|I take my coffee black|I take my coffee with milk
C|I'm left-handed|I'm right-handed
C|I have a dog|I don't have a dog
C|My car is red|My car is silver
C|My laptop has 8GB of memory|My laptop has 16 GB memory
C|My daughter is in the second grade|My daughter is in the fourth grade
C|My daughter turned seven in March|My daughter turned eight in March
N|My daughter is seven|My son is nine
C|My apartment costs 900 a month|My apartment costs 1,100 a month
N|My rent is 900 a month|My salary is 3,000 a month
C|We meet every Tuesday|We meet every Thursday
C|The gym is open on Sundays|The gym is closed on Sundays
C|Yoga class is at noon|Yoga class is at 1pm
S|Yoga class is at noon|Yoga class has been moved to 1pm
S|The repo uses Poetry|The repo now uses uv
S|Our warehouse is in Rotterdam|We relocated our warehouse to Hamburg
S|Helen works for Siemens|Helen quit Siemens
S|Helen is single|Helen got married
S|Staging runs in Frankfurt|As of March, staging runs in Dublin
S|The price is 20 dollars|The price has been increased to 25 dollars
S|Nora is the product owner|Felix became the product owner
S|We support Python 3.8|We no longer support Python 3.8
S|The API key rotates monthly|The API key now rotates weekly
S|Sessions expire after 30 minutes|We changed the session expiry to 2 hours
S|I previously lived in Madrid|I live in Porto
S|The CI runs on Jenkins|The CI was migrated from Jenkins to Buildkite
N|Our warehouse is in Rotterdam|Our showroom is in Hamburg
N|The CPU limit is 2 cores|The memory limit is 4 GB
N|Retries are capped at 3|Timeouts are capped at 30 seconds
N|Version 1.2 was released in 2020|Version 1.3 was released in 2021
N|The first meeting is on Monday|The second meeting is on Tuesday
N|In January we sold 300 units|In February we sold 450 units
N|Berlin is colder than Rome|Rome has many fountains
N|Nora wrote the parser|Felix wrote the lexer
N|The red button stops the machine|The green button starts the machine
N|User 17 reported a crash|User 42 reported a hang
N|Maybe the limit is 500|The limit is 200
N|The max upload size is 5 GB|The max download size is 2 GB
N|Tests run on Linux|Tests run on macOS
N|Emails are sent by SendGrid|Texts are sent by Twilio
N|John said he prefers dark mode|Mary said she prefers light mode
N|Alice joined in 2019|Bob joined in 2021
N|Alice joined in 2019|Alice left in 2022
N|Order 1001 shipped on Monday|Order 1002 shipped on Tuesday
N|The kitchen is on the first floor|The bedroom is on the second floor
N|The parser is fast|The parser is small
N|The house has three bedrooms|The house has two bathrooms
N|Lunch costs 12 euros|Dinner costs 25 euros
N|I bought two apples|I bought three pears
C|Ingrid's locker combination is 17-4-32|Ingrid's locker combination is 9-22-5
C|Parking on level 2 costs 4 euros per hour|Parking on level 2 costs 6 euros per hour
C|The webhook secret is stored in Vault|The webhook secret is stored in an environment variable
C|The vendor is paid within 30 days|The vendor is paid within 60 days
C|Quarterly reports are due on the 5th|Quarterly reports are due on the 10th
C|The thermostat is set to 21 degrees|The thermostat is set to 19 degrees
C|Omar graduated from Cairo University|Omar graduated from Alexandria University
C|Omar has a driving licence|Omar does not have a driving licence
C|Omar's manager is Salma|Omar reports to Hassan
C|Omar was born in Giza|Omar was born in Aswan
C|Omar is a citizen of Egypt|Omar is not a citizen of Egypt
C|Our mascot is a penguin|Our mascot is an otter
C|The mascot's name is Pingu|The mascot is called Waddles
C|The package ships with type hints|The package ships without type hints
C|The logger writes to stdout|The logger writes to a file
C|The feature is behind a flag|The feature is not behind a flag
C|Cold storage is kept at -20 °C|Cold storage is kept at -80 °C
C|The queue holds up to 1,000 messages|The queue holds up to 5k messages
C|The compiler requires GCC 12|The compiler requires GCC 9
C|The daemon listens on port 8443|The daemon listens on port 9443
C|Invoices are issued in dollars|Invoices are issued in euros
C|The museum is closed on Mondays|The museum is open on Mondays
C|The museum closes at 17:30|The museum closes at 6 pm
C|Entrance to the museum is free|Entrance to the museum costs 12 euros
C|The bridge was completed in 1932|The bridge was completed in 1937
C|The bridge is 1,149 metres long|The bridge is 1.4 km long
C|The river flows into the Black Sea|The river does not flow into the Black Sea
C|Vitamin C prevents colds|Vitamin C does not prevent colds
C|The treatment is effective in children|The treatment is ineffective in children
C|Neutrinos have mass|Neutrinos have no mass
C|Our newsletter goes out weekly|Our newsletter goes out monthly
C|We ship to Canada|We do not ship to Canada
C|The refund window is 14 days|The refund window is 30 days
C|Refunds are processed manually|Refunds are processed automatically
C|The board has nine members|The board has 11 members
C|Every order is insured|No order is insured
C|The default theme is dark|The default theme is light
C|The author of the report is Lindqvist|The report was written by Okafor
C|Lindqvist wrote the report|Okafor wrote the report
C|The backup server is in Oslo|The backup server is in Tallinn
C|TLS 1.2 is the minimum version|The minimum version is TLS 1.3
C|Node 20 is required to build|Node 18 is required to build
C|The build takes 12 minutes|The build takes about 40 minutes
C|Coverage is at 85%|Coverage is at 72%
C|Code reviews are mandatory|Code reviews are optional
C|Two reviewers must approve|Three reviewers must approve
C|My grandmother lives in Porto|My grandmother lives in Faro
C|My cat is three years old|My cat is five years old
C|My wedding anniversary is 14 September|My wedding anniversary is on September 4
C|I wake up at 6am|I wake up at 8am
C|I am afraid of heights|I'm not afraid of heights
C|I play the violin|I don't play the violin
C|I love cilantro|I hate cilantro
C|My blood type is O negative|My blood type is A positive
C|My passport expires in 2027|My passport expires in 2031
C|I drink two cups of coffee a day|I drink four cups of coffee a day
C|Our wifi network is called Nautilus|Our wifi network is called Kraken
C|My therapist is Dr. Amari|My therapist is Dr. Brandt
S|Our mascot is a penguin|Our mascot is now an otter
S|My grandmother lives in Porto|My grandmother moved to Faro
S|The refund window is 14 days|The refund window was extended to 30 days
S|We ship to Canada|We no longer ship to Canada
S|I play the violin|I stopped playing the violin
S|The queue holds 1,000 messages|Since version 4 the queue holds 5,000 messages
S|Invoices are issued in dollars|Starting in May invoices are issued in euros
S|Omar's manager is Salma|Hassan became Omar's manager
S|The daemon listens on port 8443|The daemon was moved to port 9443
S|We deploy with Jenkins|We migrated from Jenkins to Buildkite
S|The logger used to write to a file|The logger writes to stdout
N|The museum closes at 17:30|The museum closes at 5:30 pm
N|The bridge is 1,149 metres long|The bridge is about 1.15 km long
N|The board has eleven members|The board has 11 members
N|The refund window is 14 days|The refund window is two weeks
N|Neutrinos have mass|Photons have no mass
N|My cat is three years old|My dog is five years old
N|The build takes 12 minutes|The deploy takes 40 minutes
N|Parking on level 2 costs 4 euros per hour|Parking on level 3 costs 6 euros per hour
N|The museum opens at 9:00|The museum closes at 17:30
N|Omar was born in Giza|Omar was born in 1990
N|Omar's manager is Salma|Omar's assistant is Hassan
N|Refunds are processed manually|Orders are processed automatically
N|Vitamin C prevents scurvy|Vitamin D does not prevent colds
N|Node 20 is required to build|Python 3.11 is required to build
N|Coverage is at 85%|Coverage is reported by Codecov
N|I love cilantro|My brother hates cilantro
N|I play the violin|I play the piano
N|The default theme is dark|The default font is small
N|The first draft is due on 3 June|The final draft is due on 20 June
N|We ship to Canada|We ship to Mexico
N|Team A has 6 people|Team B has 9 people
N|Lindqvist wrote the report|Okafor reviewed the report
N|Would the queue hold 5,000 messages?|The queue holds 1,000 messages
N|The queue holds 1,000 messages|The queue is drained every hour
N|Revenue grew 5% in Q1|Revenue grew 8% in Q2
N|Sensor 3 reads 20 °C|Sensor 4 reads 25 °C
N|The red line runs every 5 minutes|The blue line runs every 10 minutes
N|Ingrid ordered pasta|Omar ordered soup
N|The guide says the trail is 8 km long|The trail is closed in winter
N|Our offices are in Oslo and Tallinn|We have an office in Oslo
N|She lives in Porto|He lives in Faro
N|The invoice of 3 May is paid|The invoice of 9 May is unpaid
N|Small parcels cost 5 euros|Large parcels cost 9 euros
N|Invoices are issued in dollars|Invoices are sent by email
C|Sofia's email is sofia@acme.io|Sofia's email is s.rossi@acme.io
C|Sofia prefers window seats|Sofia prefers aisle seats
C|Sofia's favorite food is ramen|Sofia's favorite food is tacos
C|Sofia is lactose intolerant|Sofia is not lactose intolerant
C|Sofia studied physics at MIT|Sofia never studied physics at MIT
C|Sofia's hometown is Turin|Sofia's hometown is Naples
C|Sofia earns 60,000 euros a year|Sofia earns 72k euros per year
C|Sofia's desk is next to the kitchen|Sofia's desk is not next to the kitchen
C|Sofia's son is 4 years old|Sofia's son is 6
C|The user's timezone is UTC+2|The user's timezone is UTC-5
C|The user's preferred language is Spanish|The user's preferred language is Portuguese
C|The user owns a bicycle|The user does not own a bicycle
C|The user's budget is $1,500|The user's budget is $2,000
C|The user works remotely|The user works from the office
C|User's birthday: 1990-04-12|User's birthday: 1991-04-12
C|Project deadline: June 15|Project deadline: July 1
C|Project codename is Falcon|Project codename is Osprey
C|The orders table has 14 columns|The orders table has 17 columns
C|The primary key of the orders table is order_id|The primary key of the orders table is uuid
C|Requests are authenticated with JWT|Requests are authenticated with session cookies
C|The worker pool size is 8|The worker pool has size 16
C|The token lifetime is 1 hour|Tokens live for 24 hours
C|The batch size defaults to 32|The batch size defaults to 64
C|The learning rate is 0.001|The learning rate is 0.01
C|The model was trained on 2 million images|The model was trained on 5 million images
C|Accuracy on the test set is 91.2%|Accuracy on the test set is 88.7%
C|Service A depends on service B|Service A does not depend on service B
C|The gateway retries failed calls three times|The gateway retries failed calls five times
C|The gateway retries failed calls|The gateway does not retry failed calls
C|Metrics are exported every 15 seconds|Metrics are exported every 60 seconds
C|Terraform state is stored in S3|Terraform state is stored in GCS
C|The domain is registered with Gandi|The domain is registered with Namecheap
C|We use GitHub for hosting code|We use GitLab for hosting code
C|Our package manager is pnpm|Our package manager is yarn
C|The linter is ruff|The linter is flake8
C|Line length is limited to 100|Line length is limited to 88
C|Python 3.9 is supported|Python 3.9 is not supported
C|Docs are hosted on Read the Docs|Docs are hosted on GitHub Pages
C|All endpoints require a token|Some endpoints do not require a token
C|Nobody has root access|Everybody has root access
C|The office has a kitchen|There is no kitchen in the office
C|The standup is at 9:30|The daily standup starts at 10:00
C|Lunch break is 45 minutes|The lunch break lasts an hour
C|Jupiter has 95 moons|Jupiter has 79 moons
C|The Nile is longer than the Amazon|The Nile is shorter than the Amazon
C|Shakespeare wrote Hamlet|Shakespeare did not write Hamlet
C|The patient is male|The patient is female
C|The patient tested positive|The patient tested negative
C|The suspect is guilty|The suspect is innocent
C|The election was held on November 5|The election was held on November 12
C|Interest rates went up|Interest rates went down
C|The merger was approved|The merger was rejected
C|The ceasefire began on Sunday|The ceasefire began on Tuesday
C|Company X acquired Company Y for $2 billion|Company X acquired Company Y for $3.5 billion
C|Nadal won the 2010 final|Nadal lost the 2010 final
S|The linter is flake8|We replaced flake8 with ruff as the linter
S|Line length is limited to 88|Line length was raised to 100
S|Sofia lives in Turin|Sofia has moved to Milan
S|The standup is at 9:30|The standup is at 10:00 from now on
S|We use GitHub for hosting code|We switched from GitHub to GitLab
S|The user owns a bicycle|The user no longer owns a bicycle
S|The batch size is 32|The batch size has been changed to 64
S|Sofia works as a nurse|Sofia now works as a teacher
S|Docs are hosted on Read the Docs|Docs have moved to GitHub Pages
S|The deadline is June 15|The deadline has been extended to July 1
N|Sofia's son is 4 years old|Sofia's daughter is 6 years old
N|Sofia's favorite food is ramen|Sofia's favorite drink is tea
N|Sofia lives in Turin|Sofia lives in Italy with her son
N|The orders table has 14 columns|The users table has 17 columns
N|The worker pool size is 8|The connection pool size is 16
N|The train loss is 0.2|The validation loss is 0.4
N|Accuracy on the test set is 91.2%|Accuracy on the training set is 97.5%
N|Service A depends on service B|Service C does not depend on service B
N|The gateway retries failed calls three times|The gateway retries failed calls 3 times
N|The token lifetime is 1 hour|The token lifetime is 60 minutes
N|Metrics are exported every 15 seconds|Metrics are exported four times a minute
N|Python 3.9 is supported|Python 3.12 is supported
N|Python 3.9 is supported|Python 3.7 is not supported
N|Jupiter has 95 moons|Saturn has 146 moons
N|Shakespeare wrote Hamlet|Shakespeare wrote Macbeth
N|The merger was approved|The merger was announced
N|Sofia earns 60,000 euros a year|Sofia earns 5,000 euros a month
N|Sofia visited Rome in May|Sofia visited Paris in June
N|The patient takes aspirin|The patient takes ibuprofen
N|We host code on GitHub|We host docs on Read the Docs
N|The user asked about flights|The user booked a hotel
N|I think the limit might be 50|Is the limit 100?
N|The blue team scored 3 goals|The red team scored 2 goals
N|The east wing opened in 1999|The west wing opened in 2005
N|Alice emailed Bob|Bob did not email Carol
N|Our Berlin team uses Jira|Our Paris team uses Linear
N|The API returns 200 on success|The API returns 404 when nothing is found
N|Nadal won the 2010 final|Nadal lost the 2011 final
N|It rained on Monday|It did not rain on Tuesday
N|The file is 3 MB|The file has 3 pages
N|Chapter 3 has 20 pages|Chapter 4 has 35 pages
N|Interest rates went up in 2022|Interest rates went down in 2024
N|The red cable is 2 m long|The black cable is 3 m long
N|Tickets for adults cost 12 euros|Tickets for children cost 6 euros
N|On weekdays the shop opens at 8|On weekends the shop opens at 10
N|The shop has 8 employees|The shop has been open for 10 years
"""

HELD_OUT = """
C|Yusuf's gym membership ends in October|Yusuf's gym membership ends in August
C|Yusuf's shoe size is 43|Yusuf's shoe size is 45
C|Yusuf commutes by train|Yusuf does not commute by train
C|Yusuf's landlord is Mrs. Peric|Yusuf's landlord is Mr. Novak
C|Yusuf plays chess on Wednesdays|Yusuf plays chess on Saturdays
C|Yusuf is an early riser|Yusuf is not an early riser
C|Yusuf works at the post office|Yusuf works at the library
C|Yusuf's bank account is in credit|Yusuf's bank account is not in credit
C|The pool is heated to 28 degrees|The pool is heated to 25 degrees
C|The hotel has 120 rooms|The hotel has 96 rooms
C|Breakfast is served until 10:30|Breakfast is served until 11:00
C|Pets are allowed in the hotel|Pets are not allowed in the hotel
C|Check-in starts at 2pm|Check-in starts at 4pm
C|The lift is broken|The lift is working
C|The exporter writes CSV files|The exporter does not write CSV files
C|The exporter was added in version 3.2|The exporter was added in version 3.4
C|The importer skips empty rows|The importer never skips empty rows
C|The scheduler is single-threaded|The scheduler is multi-threaded
C|The scheduler polls every 10 seconds|The scheduler polls every 30 seconds
C|Uploads are scanned for viruses|Uploads are not scanned for viruses
C|Image thumbnails are 256 pixels wide|Image thumbnails are 320 pixels wide
C|The search index is rebuilt nightly at 1am|The search index is rebuilt nightly at 3am
C|The support team is based in Krakow|The support team is based in Porto
C|The head of security is Amara Diallo|The head of security is Jonas Berg
C|Amara Diallo is the head of security|Jonas Berg is the head of security
C|Customers can cancel online|Customers cannot cancel online
C|The trial lasts 14 days|The trial lasts 30 days
C|The free plan includes 3 projects|The free plan includes 5 projects
C|Audit trails are immutable|Audit trails are mutable
C|The default currency is EUR|The default currency is USD
C|The launch date is 9 March 2026|The launch date is 16 March 2026
C|The library is licensed under BSD|The library is licensed under GPL
C|The reactor was shut down in 2011|The reactor was shut down in 2014
C|The comet is visible to the naked eye|The comet is not visible to the naked eye
C|The drug is approved in Europe|The drug is not approved in Europe
C|The city has 400,000 inhabitants|The city has 520,000 inhabitants
C|The tunnel is 57 km long|The tunnel is 50 km long
C|The symphony was composed by Mahler|The symphony was composed by Bruckner
C|The mayor supports the plan|The mayor opposes the plan
C|Exports rose by 4 percent|Exports fell by 4 percent
C|Our Slack channel is #platform|Our Slack channel is #infra
C|The password rotates every 90 days|The password rotates every 30 days
C|My son's teacher is Ms. Clarke|My son's teacher is Mr. Yilmaz
C|I am a vegetarian|I'm not a vegetarian
C|I have two sisters|I have three sisters
C|My car is a Toyota|My car is a Renault
C|My appointment is on Tuesday at 9|My appointment is on Thursday at 9
C|I live on the second floor|I live on the sixth floor
S|Yusuf works at the post office|Yusuf now works at the library
S|The free plan includes 3 projects|The free plan was extended to 5 projects
S|The support team is based in Krakow|The support team moved to Porto
S|Pets are allowed in the hotel|Pets are no longer allowed in the hotel
S|The scheduler polls every 10 seconds|Since March the scheduler polls every 30 seconds
S|My car is a Toyota|I sold the Toyota, my car is now a Renault
S|The default currency is EUR|The default currency was changed to USD
S|Jonas used to be the head of security|Amara is the head of security
N|Yusuf's shoe size is 43|Yusuf's shirt size is 45
N|Yusuf plays chess on Wednesdays|Yusuf plays football on Saturdays
N|Yusuf works at the post office|Yusuf's brother works at the library
N|The hotel has 120 rooms|The hostel has 96 rooms
N|Breakfast is served until 10:30|Dinner is served until 21:00
N|The pool is heated|The pool is outside
N|The trial lasts 14 days|The trial lasts two weeks
N|The trial lasts 14 days|The contract lasts 12 months
N|The launch date is 9 March 2026|The launch is on March 9
N|The free plan includes 3 projects|The team plan includes 20 projects
N|The tunnel is 57 km long|The tunnel is 57,000 metres long
N|The city has 400,000 inhabitants|The region has 2 million inhabitants
N|The exporter was added in version 3.2|The importer was added in version 3.4
N|The symphony was composed by Mahler|The opera was composed by Verdi
N|Exports rose by 4 percent|Imports fell by 2 percent
N|Exports rose by 4 percent in May|Exports fell by 1 percent in June
N|Pets are allowed in the hotel|Pets are allowed in the garden
N|My appointment with the dentist is on Tuesday|My appointment with the barber is on Friday
N|I have two sisters|I have three cousins
N|I read the first chapter|I have not read the second chapter
N|My phone is new|My phone is black
N|Customers can cancel online|Customers can pay by card
N|Was the launch date 9 March?|The launch date is 16 March
N|The lift is broken|The lift is on the left
N|Uploads are scanned for viruses|Downloads are not scanned for viruses
N|The default currency is EUR|The default language is German
N|The scheduler polls every 60 seconds|The scheduler polls once every minute
N|Box 12 holds cables|Box 14 holds adapters
N|In winter the museum closes at 4pm|In summer the museum closes at 7pm
N|Amara joined the board in 2020|Jonas joined the board in 2022
N|The kids like swimming|The kids like hiking
N|The mayor supports the plan|The governor opposes the plan
N|Ticket 881 is open|Ticket 902 is closed
N|The tenant pays 800 euros|The owner pays 200 euros
N|The lamp uses 12 watts|The heater uses 900 watts
N|She finished the report on Monday|She sent the report on Tuesday
"""

PEOPLE = """
N|Mara is working on her thesis about tides|Mara is working on a grant proposal for her lab
N|Mara is working on her thesis|Mara is working from home
N|Omar has been training hard for a race|Omar has been helping his sister move
N|Lena appreciates her team's help with the launch|Lena appreciates her team's good humour
N|Lena loves hiking in the hills|Lena loves baking bread on Sundays
N|Theo painted a portrait of his aunt|Theo painted a mural for the school
N|Theo's garden is full of roses|Theo's garden is a place to rest after work
N|Ruth is determined to finish the course|Ruth is determined to visit every county
N|Ruth is excited about the concert|Ruth is excited about her new role
N|Ivan plays chess with his father|Ivan plays tennis on weekends
N|Ivan started a blog about trains|Ivan started a club for young readers
N|Nadia has two cats|Nadia has a parrot
N|Nadia's cat is grey|Nadia's cat is on the roof again
N|Kofi is looking for a flat near the river|Kofi is looking for a used bike
N|Kofi is proud of his daughter|Kofi is proud of the team he built
N|Elif took a pottery class|Elif took a trip to the coast
N|Elif is feeling better after the surgery|Elif is feeling nervous about the talk
N|Hugo's shop is doing well|Hugo's shop is on the main street
N|Hugo's shop sells lamps|Hugo's shop is open late
N|Priya wants to become a nurse|Priya wants to travel to Peru
N|Priya is thankful for Sam's advice on the exam|Priya is thankful for Sam's lift to the airport
N|Sam encouraged Priya to apply|Sam encouraged Priya to rest and not worry
N|Sam is busy with the harvest|Sam is busy with exams
N|My brother is a good cook|My brother is in Oslo this week
N|I'm working on a novel|I'm working on my patience
N|I'm into photography|I'm into old synthesizers
N|My team is small|My team is great at reviews
N|My daughter is learning the violin|My daughter is learning to swim
N|Our house is near the station|Our house is too small for a piano
N|My favourite part was the ending|My favourite part of the trip was the train ride
N|Ada's new job is demanding|Ada's new job is in a hospital
N|Ada enjoys the quiet of the library|Ada enjoys working with children
N|Ada was nervous before the show|Ada was happy with how the show went
N|Joel's book is about a lighthouse|Joel's book is coming out in spring
N|Joel read a book about whales|Joel read a book by Woolf
N|Joel is writing a screenplay set in Rome|Joel is writing letters to his cousins
C|Mara's thesis is about tides|Mara's thesis is about volcanoes
C|Mara lives in Lisbon|Mara lives in Porto
C|Omar is vegetarian|Omar is not vegetarian
C|Lena is married|Lena is single
C|Theo's sister is called Ines|Theo's sister is called Clara
C|Ruth works at a bank|Ruth works at a bakery
C|Ivan has two children|Ivan has three children
C|Nadia's cat is called Miso|Nadia's cat is called Bean
C|Kofi was born in Accra|Kofi was born in Kumasi
C|Elif's birthday is on 3 May|Elif's birthday is on 9 May
C|Hugo's shop is in Lyon|Hugo's shop is in Nantes
C|Priya is 29 years old|Priya is 34 years old
C|Sam likes olives|Sam does not like olives
C|My brother is a dentist|My brother is a plumber
C|I'm left-handed|I'm right-handed
C|My favourite colour is green|My favourite colour is blue
C|Our wedding is on 12 June|Our wedding is on 19 June
C|Ada's office is on the third floor|Ada's office is on the fifth floor
C|Joel drives a Volvo|Joel does not drive a Volvo
C|My doctor's name is Haas|My doctor's name is Lind
"""
"""What is true of people in everyday words: most of it differs without contradicting."""
