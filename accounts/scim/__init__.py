"""SCIM 2.0 (RFC 7643 and 7644): a directory creates, changes and removes users and groups, with a token of its own.

| file | holds |
|---|---|
| `views.py` | the routes: token, body, answer |
| `token.py` | who may: the SCIM token and nothing else |
| `handlers.py` | what each route does |
| `kinds.py` | users and groups: how each is read, created, replaced, patched and deleted |
| `services.py` | changes that only a directory makes |
| `operations.py` | what a body asks for, the spellings of Entra ID and Okta included |
| `queries.py` | filters, order and pages as questions to the database |
| `resources.py` | the attributes of both resources, and rows as documents |
| `discovery.py` | what SCIM says about itself |
| `errors.py` | errors in SCIM's shape |
"""
