"""The only folder that speaks to Talos nodes, and the only importer of gRPC.

TLS is ours and comes first: who answers is verified before a byte of gRPC is sent.
"""
