package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

const markdownIntro = `# Configuration

This page is generated from the program; do not edit it.

Every setting has one key. It can be given, in rising order of precedence, by

1. the built-in default, or the default of a plugin,
2. a file, YAML or JSON: ` + "`--config FILE`" + `, ` + "`MOONCAKE_CONFIG`" + `, or the reference implementation's ` + "`--config_path`" + ` and ` + "`MOONCAKE_CONFIG_PATH`" + `,
3. an environment variable, ` + "`MOONCAKE_<SECTION>_<KEY>`" + `; an empty variable counts as unset,
4. a flag. A flag that is given wins even where it repeats the default. ` + "`--set key=value`" + ` gives any key.

` + "`mooncake config show --origin`" + ` prints what is in effect and where each value came from, ` + "`mooncake config check FILE`" + `
checks a file. An unknown key, a malformed value and a value out of bounds are errors that name the place, the value and
what is allowed, and end the process with exit code 2.

- A **duration** is a whole number with ms, s, m or h (any case, blanks allowed), or Go's form such as 1m30s. A bare number is allowed
  where the table says in what it counts.
- A **size** is a number of bytes, or a number with B, K, M, G, T, KB, MB, GB, TB, KiB, MiB, GiB or TiB in any case; decimals are allowed.
  All are multiples of 1024: 4GB and 4GiB are the same, as in the reference implementation.
- A **port** is 0 to 65535; 0 means any free port.
- A **list** is a list in a file, and separated by commas elsewhere.

`

const markdownUpstream = `## Names of the reference implementation

Flags, file keys and environment variables of the reference implementation (kvcache-ai/Mooncake) are accepted and set the same keys.
Flags may be written ` + "`-f v`, `-f=v`, `--f v`, `--f=v`, `--bool`, `--nobool`" + `, with dashes or underscores. A file may be flat, as
the reference implementation has it, in sections, or both.

- *supported*: sets the key.
- *no effect yet*: accepted, with a warning that names the missing capability. No warning where the value is the default.
- *refused*: an error unless the value is the default, because running without it would break a promise of durability,
  availability or isolation.
- *read by other programs*: belongs to an inference engine or a library that shares the environment.

Two differences are on purpose: a flag that is given always wins over the file (the reference implementation ignores one that
is given its default), and an environment variable wins over the file that ` + "`MOONCAKE_CONFIG_PATH`" + ` names.

`

// WriteMarkdown writes the reference of all settings, docs/configuration.md.
func WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, markdownIntro, "## Settings\n\n")
	section := ""
	for _, d := range Reference() {
		if s, _, _ := strings.Cut(d.Key, "."); s != section {
			section = s
			fmt.Fprintf(b, "\n### %s\n\n| key | type | default | meaning | other names |\n|---|---|---|---|---|\n", s)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", d.Key, d.Type, code(d.Default), d.meaning(), d.names())
	}
	fmt.Fprint(b, "\n", markdownUpstream)
	for _, t := range UpstreamReference() {
		fmt.Fprintf(b, "### %s\n\n| name | type | default | state | key or capability |\n|---|---|---|---|---|\n", t.Title)
		for _, n := range t.Names {
			fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s |\n", n.Name, deprecated(n.Deprecated), n.Type, code(n.Default), n.State, keyOrFeature(n))
		}
		fmt.Fprint(b, "\n")
	}
	return b.Flush()
}

func (d FieldDoc) meaning() string {
	s := d.Doc
	if d.Allowed != "" {
		s += " (" + d.Allowed + ")"
	}
	if d.Soon != "" {
		s += ". No effect yet: " + d.Soon
	}
	return s
}

func (d FieldDoc) names() string {
	var out []string
	for _, group := range [][]string{d.Flags, {d.Env}, d.Upstream} {
		for _, name := range group {
			if name != "" {
				out = append(out, code(name))
			}
		}
	}
	return strings.Join(out, " ")
}

func keyOrFeature(n UpstreamDoc) string {
	switch {
	case n.Key == "":
		return n.Feature
	case n.Feature != "":
		return code(n.Key) + ": " + n.Feature
	default:
		return code(n.Key)
	}
}

func deprecated(is bool) string {
	if is {
		return " (deprecated)"
	}
	return ""
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
