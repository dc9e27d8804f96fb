"""The exception for a user's mistakes, its kind for damaged model files, and a sentence for errors of the system."""

import errno
import os


class UserError(ValueError):
    """A mistake in the user's input, in one sentence: what, what was found, what was expected, and the remedy.

    The command line prints the sentence and exits with code 2. A program catches it as UserError or as ValueError.

    Examples:
        >>> from bipointnet import Config, UserError
        >>> try:
        ...     Config(method="lrs")
        ... except UserError as error:
        ...     print(error)
        method is 'lrs'; expected one of fp, bnn, xnor, xnor++, bi-real, abc-net, ir-net, lsr; did you mean 'lsr'?
    """


class FormatError(UserError):
    """A file that is not a packed model, or a damaged one.

    Examples:
        >>> import bipointnet
        >>> try:
        ...     bipointnet.load("README.md")
        ... except bipointnet.FormatError as error:
        ...     print("damaged:", error)  # doctest: +SKIP
    """


_PERMISSIONS = "permission denied; check the permissions, or choose another path"
_SPACE = "no space left on the device; free some space, or choose another path"
_NO_FOLDER = "a part of this path is a file; expected folders; check the path"
_REASONS = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: "the file system is read-only; choose another path",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "the file is larger than this system allows; raise the limit, or choose another path",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EISDIR: "a folder; expected a file; choose another path",
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.ENOENT: "no such file or folder; check the path",
}


def describe_os_error(error: OSError, what: str = "the operating system") -> str:
    """One sentence for an error of the operating system: the file, or `what` if the error names none, and the remedy.

    Examples:
        >>> describe_os_error(PermissionError(13, "Permission denied", "a.ply"))
        'a.ply: permission denied; check the permissions, or choose another path'
    """
    name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else what
    reason = _REASONS.get(error.errno or 0) or f"failed ({error.strerror or error}); try again, or choose another path"
    return f"{name}: {reason}"
