"""Discovery: sweeps one site's ranges and publishes which identities answer where, and under which certificate.

It alone looks for boxes that nobody has declared. It holds no Kubernetes and no Talos credential: what it says
is a claim of boxes that anybody may have put there, and whoever reads it treats it so.

`ranges` says what to sweep, `sweep` finds open ports, `probe` finds who answers, `picture` keeps what the site
looks like, `outbox` publishes it, `loop` ties them together.
"""
