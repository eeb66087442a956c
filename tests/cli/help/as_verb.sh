# "help" is --help, and "help VERB" is VERB --help.
q help >a && q --help | cmp - a && q help help | cmp - a
q help diff >a && q diff --help | cmp - a && head -n 1 a
