"""The one exception for a user's mistakes."""


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
