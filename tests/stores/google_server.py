"""The emulator of Google Cloud Storage, which keeps every byte of what it is given.

gcsfs ends a file in an upload with a bare line feed. The emulator reads the upload as a mail, so
that a file whose last byte is a carriage return would lose it: the two would be one end of a line.
"""

from __future__ import annotations

from typing import Any

from gcp_storage_emulator import server
from gcp_storage_emulator.__main__ import main

#: End of an upload after the file, as gcsfs writes it.
END = b"\n--==0==--"
_read = server._read_raw_data


def read_upload(handler: Any) -> Any:
    """The body of a request, in which a whole end of a line stands after the file."""
    body = _read(handler)
    return body.removesuffix(END) + b"\r" + END if body and body.endswith(END) else body


if __name__ == "__main__":
    server._read_raw_data = read_upload
    main()
