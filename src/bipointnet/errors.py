"""The one exception for mistakes a user can mend."""


class UserError(Exception):
    """A mistake in what the user gave us, told in one sentence: what, what was found, what was expected, the remedy.

    The command line prints the sentence and exits with code 2; a program catches this one type.
    """
