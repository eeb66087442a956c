# Sourced by scripts/test: which tenth of the generated cases runs, which tests
# run all of them, which long tests a build leaves to other slices, and
# build/times.tsv: the time of each build, test and other step of a run, with
# what tests/budget.def says is too much.
# shellcheck shell=bash
# shellcheck disable=SC2154 # root and build are of common.sh

times=$build/times.tsv
cpu_file=$build/times.cpu # "NAME<TAB>CPU SECONDS" of tests/support/timed

# slice_of_run: sets slice to that of this run, $NABLA_TEST_SLICE or the number of
# commits modulo 10; 0 where there is no history
slice_of_run() {
  local commits
  slice=${NABLA_TEST_SLICE-}
  case $slice in
    [0-9] | all) ;;
    '') commits=$(git -C "$root" rev-list --count HEAD 2>/dev/null) || commits=0
      slice=$((commits % 10)) ;;
    *) die "NABLA_TEST_SLICE=$slice is no slice: one of 0 to 9, or all" ;;
  esac
}

# whole_of_run: sets whole to patterns of the tests that run all of their cases:
# tests/whole.def names them for each folder or file that has changed. None where the
# changes are not known. A row that is none ends the run.
whole_of_run() {
  local table=$root/tests/whole.def rows row
  whole=''
  rows=$(sed '1,/\*\//d; /^$/d' "$table")
  # sed, because grep fails where nothing is wrong
  row=$(sed -nE '/^WHOLE\([a-z0-9_/.]+,( [a-z0-9_.*]+)+\)$/!{p;q;}' <<<"$rows")
  [ -z "$row" ] || die "tests/whole.def: no row: $row"
  "$root/scripts/changed" >"$build/whole.changed" 2>/dev/null || return 0
  whole=$(sed -E 's/^WHOLE\(([^,]+), (.+)\)$/\1 \2/' <<<"$rows" |
    awk 'NR == FNR { changed[$0]; next }
         { for (file in changed)
             if (file == $1 || index(file, $1 "/") == 1) {
               for (i = 2; i <= NF; i++) if (!seen[$i]++) print $i
               next } }' "$build/whole.changed" - | paste -sd ' ')
}

# thirds_of_run: sets left_out to names, joined by |, of the rows of tests/thirds.def
# that this slice does not run. A row that is none ends the run.
thirds_of_run() {
  local table=$root/tests/thirds.def rows row
  left_out=''
  rows=$(sed '1,/\*\//d; /^$/d' "$table")
  row=$(sed -nE '/^THIRD\([a-z0-9_.]+\)$/!{p;q;}' <<<"$rows")
  [ -z "$row" ] || die "tests/thirds.def: no row: $row"
  [ "$slice" != all ] || return 0
  left_out=$(sed -E 's/^THIRD\((.+)\)$/\1/' <<<"$rows" |
    awk -v "slice=$slice" '(NR - 1) % 3 != slice % 3' | paste -sd '|')
}

# times_begin TIER SLICE: a new file
times_begin() {
  printf '# tier %s, slice %s, %s CPUs\nbuild\ttest\tlabel\tseconds\tcpu_seconds\n' \
    "$1" "$2" "$(nproc)" >"$times"
}

# times_add BUILD TEST LABEL SECONDS CPU
times_add() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$times"; }

# cpu_now: sets cpu_used to the CPU seconds of all children that have ended.
# `times` is not run in a subshell, which has children of its own.
cpu_now() {
  times >"$build/times.now"
  cpu_used=$(awk 'NR == 2 {
    for (i = 1; i <= 2; i++) { split($i, t, "m"); seconds += 60 * t[1] + t[2] }
    printf "%.2f", seconds }' "$build/times.now")
}

# times_step NAME SECONDS CPU_BEFORE: the row of a step. Tests have their own.
times_step() {
  local cpu_used cpu
  cpu_now
  cpu=$(awk -v a="$3" -v b="$cpu_used" 'BEGIN { printf "%.2f", b - a }')
  case $1 in
    tests*) return ;;
    'build '*) times_add "${1#build }" '(build)' - "$2" "$cpu" ;;
    *) times_add - "$1" - "$2" "$cpu" ;;
  esac
  say "$1: $(duration "$2"), $cpu s CPU"
}

# labels_of FOLDER: NAME<TAB>LABEL,LABEL... of the tests of a build
labels_of() {
  local label
  for label in quick medium long unsanitized; do
    ctest --test-dir "$1" -N -L "^$label\$" 2>/dev/null |
      sed -nE "s/^ *Test +#[0-9]+: (.+)/\1\t$label/p"
  done | awk -F '\t' '{ of[$1] = of[$1] == "" ? $2 : of[$1] "," $2 }
                      END { for (name in of) print name "\t" of[name] }'
}

# is_whole PRESET NAME: whether the test has run all of its cases because a folder
# has changed
is_whole() {
  local pattern
  [ "$1" = release ] || return 1
  for pattern in ${whole-}; do
    # shellcheck disable=SC2254 # a pattern
    case $2 in $pattern) return 0 ;; esac
  done
  return 1
}

# times_tests PRESET: passes ctest's output on; to the line of each test it adds
# label and CPU seconds, and writes the row
times_tests() {
  local line name seconds label cpu labels=$build/times.labels
  labels_of "$build/$1" >"$labels"
  while IFS= read -r line; do
    if [[ $line =~ ^\ *[0-9]+/[0-9]+\ Test\ +#[0-9]+:\ ([^ ]+)\ .*\ ([0-9.]+)\ sec ]]; then
      name=${BASH_REMATCH[1]} seconds=${BASH_REMATCH[2]}
      label=$(awk -F '\t' -v n="$name" '$1 == n { print $2 }' "$labels")
      cpu=$(awk -F '\t' -v n="$name" '$1 == n { print $2 }' "$cpu_file")
      ! is_whole "$1" "$name" || label=${label:+$label,}whole
      times_add "$1" "$name" "${label:--}" "$seconds" "${cpu:--}"
      line+=" ${cpu:--} s CPU${label:+, $label}"
    fi
    printf '%s\n' "$line"
  done
}

# A table of the file: what each build took, and its tests by kind.
times_condensed() {
  awk -F '\t' '
    /^#/ || $1 == "build" { next }
    { kind = $2; sub(/\..*/, "", kind)
      key = $1 "\t" kind
      if (!(key in count)) order[++n] = key
      count[key]++; seconds[key] += $4; cpu[key] += $5
      total += $5 }
    END { printf "  %-8s %-22s %5s %9s %9s\n", "build", "part", "count",
                 "seconds", "CPU s"
          for (i = 1; i <= n; i++) { split(order[i], k, "\t")
            printf "  %-8s %-22s %5d %9.0f %9.0f\n", k[1], k[2],
                   count[order[i]], seconds[order[i]], cpu[order[i]] }
          printf "  %-37s %19.0f\n", "all", total }' "$times"
}

budget=$root/tests/budget.def

# times_over TIER: a line for each row of the budget that was exceeded
times_over() {
  sed -n '/\*\//,$p' "$budget" | sed 1d |
    grep -vE '^((TIER|TEST)\([a-z]+, *[0-9]+\))?$' |
    sed 's|^|  tests/budget.def: no row: |'
  sed -nE 's/^(TIER|TEST)\(([a-z]+), *([0-9]+)\)$/\1 \2 \3/p' "$budget" |
    awk -v tier="$1" '
      NR == FNR { budget[$1, $2] = $3; next }
      FNR == 1 { FS = "\t"; $0 = $0 }
      /^#/ || $1 == "build" { next }
      $3 ~ /whole$/ { next }
      { total += $5 }
      $2 != "(build)" && $1 != "-" {
        kind = $3
        sub(/,?unsanitized/, "", kind)
        if (kind == "" || kind == "-") kind = "none"
        if (("TEST", kind) in budget && $5 + 0 > budget["TEST", kind])
          printf "  %s: %s: %.0f s CPU, more than %d of label %s\n", $1, $2,
                 $5, budget["TEST", kind], kind }
      END { if (("TIER", tier) in budget && total > budget["TIER", tier])
              printf "  tier %s: %.0f s CPU, more than %d\n", tier, total,
                     budget["TIER", tier] }' - "$times"
}
