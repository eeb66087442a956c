# One bare line, also behind a verb.
q --version
q plan --version
q verify -qv --version
