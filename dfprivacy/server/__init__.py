"""A server that holds tables and answers questions about them, started by `dfprivacy serve clinic.toml`.

Requests enter as plain JSON values (`_call/wire`), and are views and questions from then on: the server has no
arithmetic of its own, and no way to a row but the methods of a view. It knows who asks by a token (`tokens`), what
it holds by the custodian's file (`config`), and answers over HTTP (`app`).
"""
