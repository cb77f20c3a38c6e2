"""What the site needs beside its pages: extensions of Sphinx, each in one file, and a check of what was built."""
