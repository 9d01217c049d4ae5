package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/pprof/driver"
	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
)

// profiles makes the verb that records the profiles of `mooncake bench profile` and draws a flame
// graph of each.
func profiles() *cobra.Command {
	var dir, seconds string
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Write profiles and flame graphs of a store and a master under load",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := cli.Main([]string{"mooncake", "bench", "profile", "--out", dir, "--seconds", seconds}, builtin.Plugins()); code != 0 {
				return exitCode(code)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*", "*.pprof"))
			for _, f := range files {
				err = errors.Join(err, flameGraph(cmd.Context(), f, strings.TrimSuffix(f, ".pprof")+".html"))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "out", "dist/profile", "folder to write to")
	cmd.Flags().StringVar(&seconds, "seconds", "15", "how long each of the three loads is profiled")
	return cmd
}

// flameGraph draws the profile of a file as a page of HTML that needs no other file: the page that
// `go tool pprof -http` serves. A profile without samples gets no page.
func flameGraph(ctx context.Context, profile, page string) error {
	ui := &quietUI{}
	err := driver.PProf(&driver.Options{
		Flagset: newFlags("-http=localhost:0", "-no_browser", profile),
		UI:      ui,
		HTTPServer: func(pprof *driver.HTTPServerArgs) error {
			answer := httptest.NewRecorder()
			pprof.Handlers["/flamegraph"].ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/flamegraph", nil))
			if answer.Code != http.StatusOK {
				return fmt.Errorf("%s: %s", answer.Result().Status, answer.Body)
			}
			return os.WriteFile(page, answer.Body.Bytes(), 0o644)
		},
	})
	if err != nil && !strings.Contains(ui.String(), "empty") {
		return fmt.Errorf("flame graph of %s: %w", profile, errors.Join(err, errors.New(ui.String())))
	}
	return nil
}

// flags are arguments of pprof.
type flags struct {
	*flag.FlagSet
	args []string
}

func newFlags(args ...string) flags {
	return flags{flag.NewFlagSet("pprof", flag.ContinueOnError), args}
}

// StringList implements driver.FlagSet.
func (f flags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}

// ExtraUsage implements driver.FlagSet.
func (flags) ExtraUsage() string { return "" }

// AddExtraUsage implements driver.FlagSet.
func (flags) AddExtraUsage(string) {}

// Parse implements driver.FlagSet.
func (f flags) Parse(usage func()) []string {
	if f.FlagSet.Parse(f.args) != nil {
		usage()
		return nil
	}
	return f.Args()
}

// quietUI keeps what pprof says.
type quietUI struct{ bytes.Buffer }

// ReadLine implements driver.UI.
func (*quietUI) ReadLine(string) (string, error) { return "", errors.New("there is no terminal") }

// Print implements driver.UI.
func (u *quietUI) Print(args ...any) { fmt.Fprintln(&u.Buffer, args...) }

// PrintErr implements driver.UI.
func (u *quietUI) PrintErr(args ...any) { u.Print(args...) }

// IsTerminal implements driver.UI.
func (*quietUI) IsTerminal() bool { return false }

// WantBrowser implements driver.UI.
func (*quietUI) WantBrowser() bool { return false }

// SetAutoComplete implements driver.UI.
func (*quietUI) SetAutoComplete(func(string) string) {}
