"""The exception for a user's mistakes, and its kind for damaged model files."""


class UserError(ValueError):
    """A mistake in the user's input, in one sentence: what, what was found, what was expected, and the remedy.

    The command line prints the sentence and exits with code 2. A program catches it as UserError or as ValueError.

    Example:
        >>> from bipointnet import Config, UserError
        >>> try:
        ...     Config(method="lrs")
        ... except UserError as error:
        ...     print(error)
        method is 'lrs'; expected one of fp, bnn, xnor, xnor++, bi-real, abc-net, ir-net, lsr; did you mean 'lsr'?
    """


class FormatError(UserError):
    """A file that is not a packed model, or a damaged one.

    Example:
        >>> import bipointnet
        >>> try:
        ...     bipointnet.load("README.md")
        ... except bipointnet.FormatError as error:
        ...     print("damaged:", error)  # doctest: +SKIP
    """
