"""Object stores and other remote file systems, and their addresses: `s3://bucket/folder`, `https://host/folder`.

    s3, s3a, gs, abfs, abfss, hdfs, viewfs    pyarrow.fs
    http, https, memory, ftp, sftp, ...       fsspec, where it is installed

Both list a folder, return the length of a file, and read a range. The library retries failed requests as it is
configured to; the final error is one line with the address.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from ...store.disk.parallel import AT_ONCE
from ...store.errors import DiskError, FileGoneError, InvalidSettingsError, MissingExtraError

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?:/([^/]*))?(.*)", re.DOTALL)
ARROW_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"})
REGION_SETTINGS = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
MESSAGE_SIZE_MAX = 400
"""Characters of a library's error: some repeat the whole answer of a server."""


@dataclass(frozen=True, slots=True)
class Address:
    """Scheme and authority of an address."""

    scheme: str
    authority: str
    """Bucket, container@account or host:port, by the scheme."""

    @property
    def root(self) -> str:
        """Without a slash at its end."""
        return f"{self.scheme}://{self.authority}"


def split_address(text: str) -> tuple[Address, str] | None:
    """The address and the path in it, which begins with a slash; None for a path without a scheme.

    Nothing is decoded: the names of objects may hold any character. Raises InvalidSettingsError for a password in it.
    """
    found = ADDRESS.fullmatch(text)
    if found is None:
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3]
    if ":" in authority.rpartition("@")[0]:
        raise InvalidSettingsError(
            f"{scheme}://...@{authority.rpartition('@')[2]}: a password in an address shows in logs; expected it in "
            "the option storageOptions"
        )
    return Address(scheme, authority), posixpath.normpath(f"/{path.strip('/')}")


class Found(NamedTuple):
    """An entry of a folder."""

    path: str
    """Relative to the folder that was listed."""
    is_folder: bool
    size: int
    """Bytes of a file; 0 for a folder."""


class StorageFile(Protocol):
    """An open file."""

    def size(self) -> int:
        """Bytes. Raises FileNotFoundError."""

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ends. Raises FileNotFoundError."""


class Storage(Protocol):
    """A remote file system. Paths begin with a slash, below the authority of its address."""

    def find(self, folder: str, *, deep: bool) -> list[Found]:
        """The entries of a folder, with `deep` of all folders below it; none if it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    def open(self, path: str) -> StorageFile:
        """Raises FileNotFoundError, here or when it is read."""


@contextmanager
def storage_errors(uri: str, what: str) -> Iterator[None]:
    """Converts any error of a library to one line with the address and what to do."""
    try:
        yield
    except FileNotFoundError as e:
        raise FileGoneError(f"{uri}: {what}: not found. Expected what was there when the query began") from e
    except Exception as e:  # every library has its own
        said = " ".join(f"{e or type(e).__name__}".split())
        said = said if len(said) <= MESSAGE_SIZE_MAX else f"{said[:MESSAGE_SIZE_MAX]}..."
        raise DiskError(
            f"{uri}: {what}: {said}. Look after the address, the credentials (option storageOptions) and the network, "
            "and run it again"
        ) from e


@lru_cache(maxsize=8)
def storage_of(address: Address, storage_options: str) -> Storage:
    """The storage of an address. Cached, so connections are kept for the process.

    Raises InvalidSettingsError, MissingExtraError and DiskError.
    """
    options = json.loads(storage_options) if storage_options else {}
    if address.scheme in ARROW_SCHEMES:
        return _ArrowStorage(*_arrow_file_system(address, options))
    return _FsspecStorage(_fsspec_file_system(address, options), address)


def _arrow_file_system(address: Address, options: dict[str, Any]) -> tuple[Any, str]:
    """The file system, and the prefix of paths in it."""
    import pyarrow.fs as arrow

    try:
        match address.scheme:
            case "s3" | "s3a" | "s3n":
                return _s3(arrow, address, options), address.authority
            case "gs" | "gcs":
                return arrow.GcsFileSystem(**options), _bucket(address, "BUCKET")
            case "abfs" | "abfss":
                container, _, host = _bucket(address, "CONTAINER@ACCOUNT.dfs.core.windows.net").partition("@")
                return arrow.AzureFileSystem(host.split(".")[0], **options), container
            case _:
                return _hadoop(arrow, address, options), ""
    except (AttributeError, ImportError) as e:
        raise InvalidSettingsError(f"{address.root}: this pyarrow was built without what reads there: {e}") from e
    except (TypeError, ValueError) as e:
        raise InvalidSettingsError(f"{address.root}: storageOptions: {e}") from e
    except OSError as e:
        with storage_errors(address.root, "connecting"):
            raise e


def _bucket(address: Address, expected: str) -> str:
    if "" in address.authority.split("@", expected.count("@")) or ("@" in expected) > ("@" in address.authority):
        raise InvalidSettingsError(f"{address.root}: expected {address.scheme}://{expected}/folder")
    return address.authority


def _s3(arrow: Any, address: Address, options: dict[str, Any]) -> Any:
    bucket, made = _bucket(address, "BUCKET"), arrow.S3FileSystem(**options)
    if {"region", "endpoint_override"} & options.keys() or any(map(os.environ.get, REGION_SETTINGS)):
        return made
    with storage_errors(address.root, "asking for the region of the bucket"):
        return arrow.S3FileSystem(**options, region=arrow.resolve_s3_region(bucket))


def _hadoop(arrow: Any, address: Address, options: dict[str, Any]) -> Any:
    user, _, place = address.authority.rpartition("@")
    host, _, port = place.partition(":")
    known = {"port": int(port or 0 if host else 0), **({"user": user} if user else {})}
    return arrow.HadoopFileSystem(f"{address.scheme}://{host}" if host else "default", **{**known, **options})


def _fsspec_file_system(address: Address, options: dict[str, Any]) -> Any:
    try:
        import fsspec
    except ModuleNotFoundError as e:
        raise MissingExtraError("remote", f"{address.root}: reading by fsspec (not installed here)") from e
    try:
        known = fsspec.get_filesystem_class(address.scheme)
    except (ImportError, ValueError) as e:
        raise InvalidSettingsError(f"{address.root}: {e}") from e
    try:
        with storage_errors(address.root, "connecting"):
            return known(**{**known._get_kwargs_from_urls(f"{address.root}/"), "use_listings_cache": False, **options})
    except DiskError as e:
        if isinstance(e.__cause__, TypeError | ValueError):
            raise InvalidSettingsError(f"{address.root}: storageOptions: {e.__cause__}") from e
        raise


class _ArrowStorage:
    """By pyarrow.fs."""

    def __init__(self, file_system: Any, before: str) -> None:
        self._file_system, self._before = file_system, before

    def find(self, folder: str, *, deep: bool) -> list[Found]:
        from pyarrow.fs import FileSelector, FileType

        base = self._before + folder.rstrip("/")
        found = self._file_system.get_file_info(FileSelector(base or "/", allow_not_found=True, recursive=deep))
        return [
            Found(_below(info.path, base), info.type == FileType.Directory, info.size or 0)
            for info in found
            if info.type in (FileType.Directory, FileType.File)
        ]

    def exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._file_system.get_file_info((self._before + path).rstrip("/") or "/").type != FileType.NotFound)

    def open(self, path: str) -> StorageFile:
        return _ArrowFile(self._file_system.open_input_file(self._before + path))


class _ArrowFile:
    def __init__(self, file: Any) -> None:
        self._file = file

    def size(self) -> int:
        return int(self._file.size())

    def read(self, position: int, size: int) -> bytes:
        data: bytes = self._file.read_at(size, position)
        return data


class _FsspecStorage:
    """By fsspec. Folders are listed one by one, in parallel: not every file system lists recursively, and an HTTP
    server's index does not contain the lengths of files."""

    def __init__(self, file_system: Any, address: Address) -> None:
        self._file_system, self._root = file_system, address.root
        self._is_http = address.scheme in ("http", "https")

    def _address(self, path: str) -> str:
        return self._root + (quote(path) if self._is_http else path)

    def find(self, folder: str, *, deep: bool) -> list[Found]:
        found: list[Found] = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            folders = [folder.rstrip("/")]
            while folders:
                inside = list(pool.map(self._look_into, folders))
                folders = [each.path for entries in inside for each in entries if each.is_folder] if deep else []
                found += [each for entries in inside for each in entries]
            sizes = list(pool.map(lambda each: each.size if each.size >= 0 else self.open(each.path).size(), found))
        base = folder.rstrip("/")
        return [Found(_below(each.path, base), each.is_folder, size) for each, size in zip(found, sizes, strict=True)]

    def _look_into(self, folder: str) -> list[Found]:
        """The direct entries of a folder, with whole paths; a size of -1 is unknown."""
        try:
            entries = self._file_system.ls(self._address(f"{folder}/"), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = []
        for entry in entries:
            name = entry["name"].rstrip("/").rpartition("/")[2]
            name = unquote(name) if self._is_http else name
            is_folder, size = entry["type"] == "directory", entry.get("size")
            found.append(Found(f"{folder}/{name}", is_folder, 0 if is_folder else -1 if size is None else int(size)))
        return found

    def exists(self, path: str) -> bool:
        try:  # its own `exists` takes whatever goes wrong for a no
            self._file_system.ls(self._address(f"{path}/"), detail=False)
        except FileNotFoundError:
            return False
        return True

    def open(self, path: str) -> StorageFile:
        return _FsspecFile(self._file_system, self._address(path))


class _FsspecFile:
    def __init__(self, file_system: Any, path: str) -> None:
        self._file_system, self._path = file_system, path

    def size(self) -> int:
        size = self._file_system.info(self._path).get("size")
        if size is None:
            raise OSError("the server does not say how long the file is")
        return int(size)

    def read(self, position: int, size: int) -> bytes:
        data: bytes = self._file_system.cat_file(self._path, start=position, end=position + size)
        if len(data) > size:
            raise OSError(f"got {len(data)} bytes in place of {size}: the server does not serve ranges of a file")
        return data


def _below(path: str, base: str) -> str:
    return path.rstrip("/").removeprefix(base).lstrip("/")
