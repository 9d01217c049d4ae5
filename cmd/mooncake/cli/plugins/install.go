package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

func (e verbs) installCmd() *cobra.Command {
	var f trustFlags
	var dir string
	var lock bool
	cmd := &cobra.Command{
		Use:   "install FILE",
		Short: "Check a plugin and copy it into a plugin folder",
		Long: `Reads the manifest from FILE, checks that FILE is a plugin for this machine with a contract
version that this program supports, and copies it under its right name, with mode 0755, into
the plugin folder of this user, or into that of --dir. It replaces an older file atomically, and keeps
that: 'mooncake plugins rollback ID' goes back to it.
FILE may have any name that is not that of another plugin. The plugin is not run.

A process that runs the plugin keeps its version until 'mooncake plugins reload ID'.`,
		Example: `  mooncake plugins install ./mooncake-plugin-evict-fifo
  mooncake plugins install ./fifo-0.2.0 --dir /usr/lib/mooncake/plugins --lock
  mooncake plugins install ./mooncake-plugin-evict-fifo -o json`,
		Args: command.Args(1, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := e.trusting(f, trust.ModeOff)
			if err != nil {
				return err
			}
			if lock && t.lock == "" {
				return command.Usage(errNoLock)
			}
			to, err := e.installDir(dir)
			if err != nil {
				return err
			}
			return e.installPlugin(cmd.Context(), t, args[0], to, lock, f.format)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "folder to install into (default: that of this user, $XDG_DATA_HOME/mooncake/plugins)")
	cmd.Flags().BoolVar(&lock, "lock", false, "also write the checksum into the lock file")
	return cmd
}

func (e verbs) installDir(dir string) (string, error) {
	if dir == "" {
		dir = find.UserDir(e.Getenv)
	}
	if dir == "" {
		return "", command.Usage(errors.New("this user has no plugin folder, because neither XDG_DATA_HOME nor HOME is set; give --dir"))
	}
	abs, err := filepath.Abs(dir)
	return abs, command.Usage(err)
}

// installation is the result of plugins install.
type installation struct {
	ID       string      `json:"id" yaml:"id"`
	Version  string      `json:"version" yaml:"version"`
	Platform string      `json:"platform" yaml:"platform"`
	SHA256   string      `json:"sha256" yaml:"sha256"`
	File     string      `json:"file" yaml:"file"`
	Before   *lockedItem `json:"before,omitempty" yaml:"before,omitempty"`
	// Trust is as in plugins list. It is empty if no lock file is named.
	Trust string `json:"trust,omitempty" yaml:"trust,omitempty"`
	// Notes say what the user has to do next.
	Notes []string `json:"notes" yaml:"notes"`
}

func (e verbs) installPlugin(ctx context.Context, t trusting, file, dir string, lock bool, format output.Format) error {
	done, err := find.Install(ctx, file, dir, kinds.API)
	if err != nil {
		return err
	}
	return e.installed(ctx, t, done, lock, format)
}

// installed enters what was installed into the lock file, and prints it.
func (e verbs) installed(ctx context.Context, t trusting, done find.Installed, lock bool, format output.Format) error {
	id := done.Manifest.ID
	out := installation{
		ID: id.String(), Version: done.Manifest.Version, Platform: done.Platform, SHA256: done.SHA256, File: done.Path, Notes: []string{},
	}
	if b := done.Before; b != nil {
		out.Before = &lockedItem{b.Manifest.Version, b.SHA256}
	}
	if lock {
		err := trust.UpdateLock(ctx, t.lock, func(l *trust.Lock) error { return l.Set(id, done.Platform, done.Locked()) })
		if err != nil {
			return fmt.Errorf("%s is installed as %s, but not locked: %w", id, done.Path, err)
		}
		e.unsigned(t)
	}
	e.afterInstall(ctx, t, &out)
	return output.Print(e.Stdout, format, out, out.write)
}

func (out *installation) write(w io.Writer) {
	switch {
	case out.Before == nil:
		fmt.Fprintf(w, "installed %s %s as %s\n", out.ID, output.Printable(out.Version), output.Printable(out.File))
	case out.Before.SHA256 == out.SHA256:
		fmt.Fprintf(w, "%s %s was there already: %s\n", out.ID, output.Printable(out.Version), output.Printable(out.File))
	default:
		fmt.Fprintf(w, "installed %s %s instead of %s as %s\n", out.ID, output.Printable(out.Version), output.Printable(out.Before.Version), output.Printable(out.File))
	}
	fmt.Fprintf(w, "sha256 %s\n", out.SHA256)
	for _, n := range out.Notes {
		fmt.Fprintln(w, "note: "+output.Printable(n))
	}
}

// afterInstall checks whether the plugin will run now, and notes what is missing.
func (e verbs) afterInstall(ctx context.Context, t trusting, out *installation) {
	found := false
	for _, en := range t.catalog.List() {
		switch {
		case en.Home == out.File:
			found = true
			if t.lock != "" {
				out.Trust = en.Trust
			}
			if en.Reason != "" {
				out.Notes = append(out.Notes, en.Reason)
			}
		case isBuiltin(en) && en.ID().String() == out.ID:
			out.Notes = append(out.Notes, "a plugin of this name is linked in as well; plugins."+en.Kind+"."+en.Name+".mode: subprocess runs the file")
		}
	}
	if !found {
		out.Notes = append(out.Notes, filepath.Dir(out.File)+" is not searched; add it to plugins.dirs, or give --plugin-dir")
	}
	if out.Trust != "" && out.Trust != trust.IsLocked {
		out.Notes = append(out.Notes, "the lock file does not have it; run: mooncake plugins lock "+out.ID)
	}
	if users := e.usersOf(ctx, out.ID, out.File); len(users) > 0 && out.Before != nil && out.Before.SHA256 != out.SHA256 {
		out.Notes = append(out.Notes, fmt.Sprintf("%v runs the previous version; replace it there: mooncake plugins reload %s", users, out.ID))
	}
}

// usersOf names the running processes that use a plugin's file.
func (e verbs) usersOf(ctx context.Context, id, file string) []string {
	var out []string
	for _, in := range e.askAll(ctx).instances {
		if in.ID().String() == id && in.Home == file && !slices.Contains(out, in.where()) {
			out = append(out, in.where())
		}
	}
	return out
}
