"""Who a box is: its SMBIOS UUID, serial number and permanent MACs, and when two of these agree.

Nothing here says where a box is or whether it proved who it is.
"""

from libs.identity.model import Identity

__all__ = ["Identity"]
