"""The embedded default: nats-server and our services as child processes, and an operator's view of them.

`process` runs any program, `nats_server` and `service` know ours, `stack` starts and stops several at once,
`accounts` holds who may speak to the Kubernetes API and writes their kubeconfigs. `boxes` and `operator` are
what a person can switch and see. The children end with this process, however it ends. Nothing here is for
production.

Submodules are imported by name, so that a process which only runs others loads no client library.
"""
