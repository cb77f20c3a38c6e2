"""The paper's experiments, run anew: `dope paper`.

`cases` and `drawings` say what is minimized; `study` and `ink` which runs there are, and what is measured of each;
`serial` asks a peer, in a process of its own; `ledger` keeps lines and labels, so that a run can be broken off;
`tables`, `parts` and the `*_page` modules make sections of them, and `page` one page of those.
"""
