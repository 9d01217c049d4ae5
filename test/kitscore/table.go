package kitscore

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteJSON writes the verdicts as a list.
func WriteJSON(w io.Writer, all []Verdict) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

// WriteText writes a table, and the score of each kind.
func WriteText(w io.Writer, all []Verdict) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tbug\ton the program\tin process")
	for _, v := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", v.Kind, v.Bug, v.by(Binary), v.by(InProcess))
	}
	for _, s := range Sums(all) {
		fmt.Fprintf(t, "%s\t%d bugs\t%d found\t%d found\n", s.Kind, s.Bugs, s.Binary, s.InProcess)
	}
	return t.Flush()
}

// WriteMarkdown writes the table of docs/plugins/testing.md.
func WriteMarkdown(w io.Writer, all []Verdict) error {
	var b strings.Builder
	b.WriteString("| kind | bugs | found on the program | found in process |\n|---|---|---|---|\n")
	for _, s := range Sums(all) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", s.Kind, s.Bugs, s.Binary, s.InProcess)
	}
	b.WriteString("\n| kind | bug | the check that finds it on the program | in process |\n|---|---|---|---|\n")
	for _, v := range all {
		binary, inProcess := v.by(Binary), v.by(InProcess)
		if inProcess == binary {
			inProcess = "the same"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Kind, strings.TrimSuffix(v.Wrong, "."), binary, inProcess)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// by says which check found a bug.
func (v Verdict) by(m Mode) string {
	switch f := v.How[m]; {
	case f.Check != "":
		return f.Check
	case v.Killed && m == InProcess:
		return "needs a process"
	case v.Race:
		return "only the race detector"
	case v.Bounded != "" && m == Binary:
		return "enforced by the host: " + v.Bounded
	default:
		return "missed"
	}
}

// Sum is the score of a kind.
type Sum struct {
	Kind                    string
	Bugs, Binary, InProcess int
}

// Sums returns the scores by kind.
func Sums(all []Verdict) []Sum {
	by := map[string]Sum{}
	for _, v := range all {
		s := by[v.Kind]
		s.Kind = v.Kind
		s.Bugs++
		if v.Binary {
			s.Binary++
		}
		if v.InProcess {
			s.InProcess++
		}
		by[v.Kind] = s
	}
	var out []Sum
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[kind])
	}
	return out
}

// Missed lists the bugs that were missed in a mode, but for races.
func Missed(all []Verdict) []string {
	var out []string
	for _, v := range all {
		for _, m := range []Mode{Binary, InProcess} {
			if v.How[m].Check == "" && !v.Race && (!v.Killed || m == Binary) && (v.Bounded == "" || m != Binary) {
				out = append(out, fmt.Sprintf("%s/%s, %s: missed: %s", v.Kind, v.Bug, m, v.Wrong))
			}
		}
	}
	return out
}
