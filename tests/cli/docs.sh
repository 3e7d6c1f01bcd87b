# docs/runtime-controls.md and the man pages name the flags that each program's --help names, and
# the environment variables that the programs read: all of them, and no others.
. tests/support/testlib.sh

controls=docs/runtime-controls.md
flags() { grep -oE -- '(^|[^A-Za-z0-9-])--[a-z][a-z0-9-]*' | sed 's/.*--/--/' | sort -u; }

# Words of the command list in --help, for programs that have commands.
commands() { # program
    "$1" --help | sed -n '/Commands:$/,/^$/p' | grep -oE '^  [a-z]+' | tr -d ' '
}

compare() { # what, text A, where A is from, text B, where B is from
    local missing
    missing=$(comm -23 <(echo "$2") <(echo "$4") | tr '\n' ' ')
    [ -z "${missing// /}" ] || fail "$5 lacks $missing($1; $3 has them)"
    missing=$(comm -13 <(echo "$2") <(echo "$4") | tr '\n' ' ')
    [ -z "${missing// /}" ] || fail "$3 lacks $missing($1; $5 has them)"
}

# Bounds that --help prints behind a flag, "--flag most", stand in the flag's row of the page.
bounds() {
    awk '/^  --/ { print flag, text; flag = $1; text = "" } { text = text " " $0 } END { print flag, text }' |
        grep -oE '^--[a-z-]+|\(-?[0-9.]+ to [0-9.]+\)' |
        awk '/^--/ { flag = $0; next } { gsub(/[()]/, ""); print flag, $1, $3 }'
}
check_bounds() { # program; its help on standard input
    local flag least most row
    while read -r flag least most; do
        row=$(sed -n "/^## $1\$/,/^## /p" $controls | grep -E "^\| \`$flag\`" | tr -d ',' |
            sed 's/−/-/g')
        # One that must be above 0 says so in its own words.
        [[ $row =~ (^|[^0-9.])$least(,|[^0-9.]) ]] || [ "$least" = 0 ] ||
            fail "$controls: $flag of $1 lacks its least value $least"
        [[ $row =~ (^|[^0-9.])$most([^0-9.]|$) ]] || fail "$controls: $flag of $1 lacks its bound $most"
    done < <(bounds)
}

found=0
for path in "$BUILD"/bin/TinyTitan*; do
    name=${path##*/}
    help=$("$path" --help) || fail "$name --help fails"
    for command in $(commands "$path"); do
        help+=$'\n'$("$path" "$command" --help) || fail "$name $command --help fails"
    done
    in_help=$(flags <<<"$help")
    [ -n "$in_help" ] || fail "$name --help names no flag"
    check_bounds "$name" <<<"$help"
    # First cells of the rows in the program's section.
    in_controls=$(sed -n "/^## $name\$/,/^## /p" $controls | grep -oE '^\| `--[^|]*' | flags)
    in_man=$(grep -E '^\*--' "docs/man/$name.1.scd" | flags)
    compare "flags of $name" "$in_help" "--help" "$in_controls" "$controls"
    compare "flags of $name" "$in_help" "--help" "$in_man" "docs/man/$name.1.scd"
    for command in $(commands "$path"); do
        sed -n "/^## $name\$/,/^## /p" $controls | grep -qF "\`$command\`" ||
            fail "$controls does not name the command $command of $name"
        grep -qE "^\\*$command\\*" "docs/man/$name.1.scd" ||
            fail "docs/man/$name.1.scd does not name the command $command"
    done
    found=$((found + 1))
done
[ $found -ge 4 ] || fail "only $found programs in $BUILD/bin"

in_code=$(grep -rhoE 'getenv\("[A-Za-z0-9_]+"\)' apps | cut -d'"' -f2 | sort -u)
in_controls=$(sed -n '/^## Environment$/,/^## /p' $controls | grep -oE '^\| `[A-Za-z0-9_]+`' |
    tr -d '|` ' | sort -u)
compare "environment" "$in_code" "apps/" "$in_controls" "$controls"

# A flag that a document names in passing exists in some program or tool of the project.
known=$(cat <(for path in "$BUILD"/bin/TinyTitan*; do
    "$path" --help
    for command in $(commands "$path"); do "$path" "$command" --help; done
done) tools/* tests/run lab/*/*.sh | flags)
for page in README.md CONTRIBUTING.md docs/*.md docs/man/*.scd models/*/README.md; do
    for flag in $(sed 's/pkg-config.*//; s/git .*//' "$page" | flags); do
        grep -qxF -- "$flag" <<<"$known" || fail "$page names $flag, which no program has"
    done
done
