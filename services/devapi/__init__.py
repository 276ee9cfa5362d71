"""The embedded Kubernetes API of the demo and of quick tests: in memory, small, and honest about it.

It alone owns: the objects that it is given, for as long as it runs. It answers as kube-apiserver does for all that
nodetrail uses (tests/contracts/kube_api runs against both), and says in its log, in /version and in a header of each
answer what it leaves out. It is not offered for production.
"""
