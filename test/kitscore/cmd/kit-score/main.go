// Command kit-score counts the seeded bugs that the conformance suites find. Run it in the root of
// the repository: make kit-score.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/test/kitscore"
	"github.com/mooncake-go/mooncake/test/kitscore/allocators"
	"github.com/mooncake-go/mooncake/test/kitscore/evictors"
	"github.com/mooncake-go/mooncake/test/kitscore/tiers"
	"github.com/mooncake-go/mooncake/test/kitscore/transports"
)

// kinds lists what there is; a line for each kind.
func kinds() []kitscore.Kind {
	return []kitscore.Kind{
		transports.Kind(),
		evictors.Kind(),
		allocators.Kind(),
		tiers.Kind(),
	}
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if child, err := kitscore.Child(ctx, kinds()); child || err != nil {
		return err
	}
	out := flag.String("out", "", "file for the verdicts as JSON")
	docs := flag.String("docs", "", "file whose table between the marks of make kit-score is written")
	which := flag.String("run", "", "only bugs whose kind/name match this regular expression; the correct plugins are then left out")
	all := flag.Bool("all", false, "run every check on every bug, and not only those that should find it")
	limit := flag.Duration("check-timeout", time.Minute, "limit for each check")
	patience := flag.Duration("patience", 8*time.Second, "how long a check waits for the plugin")
	flag.Parse()
	re, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kit-score")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)                      //nolint:errcheck // a temporary folder
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // The rules of trust need no more than this.
		return err
	}
	if err := kitscore.Build(ctx, dir, kinds()); err != nil {
		return err
	}
	began := time.Now()
	base := kitscore.Run{Dir: dir, Limit: *limit, Patience: *patience}
	verdicts, err := kitscore.Score(ctx, kinds(), re, base, *all, func(v kitscore.Verdict) {
		fmt.Fprintf(os.Stderr, "%s/%s: on the program %s, in process %s\n", v.Kind, v.Bug, how(v, kitscore.Binary), how(v, kitscore.InProcess))
	})
	if err != nil {
		return err
	}
	wrong := kitscore.Missed(verdicts)
	if *which == "" {
		alarms, err := kitscore.Alarms(ctx, kinds(), base)
		if err != nil {
			return err
		}
		wrong = append(wrong, alarms...)
		fmt.Fprintf(os.Stderr, "false alarms: %d\n", len(alarms))
	}
	if err := write(verdicts, *out, *docs); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d bugs in %s\n", len(verdicts), time.Since(began).Round(time.Second))
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

func how(v kitscore.Verdict, m kitscore.Mode) string {
	if f := v.How[m]; f.Check != "" {
		return fmt.Sprintf("%q in %.1f s", f.Check, f.Seconds)
	}
	return fmt.Sprintf("missed in %.1f s", v.How[m].Seconds)
}

// write writes the verdicts: to standard output as text, and to the files that were named.
func write(verdicts []kitscore.Verdict, out, docs string) error {
	if err := kitscore.WriteText(os.Stdout, verdicts); err != nil {
		return err
	}
	if out != "" {
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // a folder of reports
			return err
		}
		var b strings.Builder
		if err := kitscore.WriteJSON(&b, verdicts); err != nil {
			return err
		}
		if err := os.WriteFile(out, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a report
			return err
		}
	}
	if docs == "" {
		return nil
	}
	text, err := os.ReadFile(docs)
	if err != nil {
		return err
	}
	const from, to = "<!-- make kit-score -->\n", "<!-- end of make kit-score -->"
	head, rest, ok := strings.Cut(string(text), from)
	_, foot, ends := strings.Cut(rest, to)
	if !ok || !ends {
		return fmt.Errorf("%s has no marks of make kit-score", docs)
	}
	var b strings.Builder
	if err := kitscore.WriteMarkdown(&b, verdicts); err != nil {
		return err
	}
	return os.WriteFile(docs, []byte(head+from+b.String()+to+foot), 0o644) //nolint:gosec // a page
}
