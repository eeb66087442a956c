"""Writes a wheel (PEP 427): a zip file with the same bytes for the same content."""
import base64
import hashlib
import zipfile

EPOCH = (1980, 1, 1, 0, 0, 0)


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(
        hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write(path, files, info):
    """files: name: bytes; info: the name of the folder of the metadata, whose RECORD
    is made here."""
    record = info + "/RECORD"
    rows = ["%s,%s,%d" % (name, digest(data), len(data))
            for name, data in sorted(files.items())]
    files = dict(files)
    files[record] = ("\n".join(rows + [record + ",,"]) + "\n").encode()
    order = sorted(files, key=lambda name: (name.startswith(info + "/"), name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name in order:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            out.writestr(entry, files[name])
