package plugins

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e verbs) lockCmd() *cobra.Command {
	var f trustFlags
	var platform string
	cmd := &cobra.Command{
		Use:   "lock [ID|FILE]...",
		Short: "Write the checksums of plugins into the lock file, to trust the present files",
		Long: `Adds plugins to the lock file, or updates their entries, so that they run with plugins.trust
set to locked: the named plugins, or all that are found. Entries for other platforms stay. A
FILE need not be in a plugin folder. If it is for another platform, name that platform with
--platform; a script is the same for all platforms.

Where plugins.trusted_keys demands a signature, sign the lock file afterwards: 'mooncake plugins
sign'.

The lock file is replaced atomically: a reader sees the old file or the new one. The verb fails
if other users may write the file or its folder. No plugin is run.`,
		Example: `  mooncake plugins lock --plugin-lock /etc/mooncake/plugins.lock.yaml
  mooncake plugins lock evict/fifo
  mooncake plugins lock --platform linux/arm64 build/arm64/mooncake-plugin-evict-fifo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := e.trusting(f, trust.ModeOff)
			if err != nil {
				return err
			}
			if t.lock == "" {
				return command.Usage(errNoLock)
			}
			found, err := e.toLock(t, args, platform)
			if err != nil {
				return err
			}
			if err := e.lockPlugins(cmd.Context(), t.lock, found, f.format); err != nil {
				return err
			}
			e.unsigned(t)
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&platform, "platform", "", "platform of the files, such as linux/arm64 (default: this one)")
	return cmd
}

// lockable is a program that is to be locked.
type lockable struct {
	find.Program
	path string
}

func (e verbs) toLock(t trusting, args []string, platform string) ([]lockable, error) {
	if len(args) == 0 {
		if platform != "" {
			return nil, command.Usagef("--platform is about files: name them")
		}
		return e.allToLock(t)
	}
	var out []lockable
	for _, arg := range args {
		target, err := targetOf(arg)
		if err != nil {
			return nil, err
		}
		path := target.file
		if path == "" {
			if platform != "" {
				return nil, command.Usagef("--platform is about files, and %s is the name of a plugin: name its file, with its folder", arg)
			}
			if path, err = e.usedFile(t, target.id); err != nil {
				return nil, err
			}
		}
		p, err := find.ReadProgram(path)
		if err != nil {
			return nil, err
		}
		want := platform
		if want == "" {
			want = trust.HostPlatform()
		}
		if p.Platform != trust.AnyPlatform && p.Platform != want {
			return nil, command.Usagef("%s is a program for %s, not for %s; if that is meant, give --platform %s", path, p.Platform, want, p.Platform)
		}
		out = append(out, lockable{p, path})
	}
	return out, nil
}

// usedFile returns the file of a plugin that would run.
func (e verbs) usedFile(t trusting, id plugin.ID) (string, error) {
	found := binaries(t.catalog.List(), id)
	for _, en := range found {
		if en.State != plugin.StateFailed {
			return en.Home, nil
		}
	}
	if len(found) > 0 {
		return "", fmt.Errorf("%s is refused, locked or not: %s", found[0].Home, found[0].Reason)
	}
	return "", e.absent(id)
}

func (e verbs) allToLock(t trusting) ([]lockable, error) {
	var out []lockable
	all := t.catalog.List()
	for _, en := range folders(all) {
		fmt.Fprintf(e.Stderr, "left out: %s: %s\n", output.Printable(en.Home), output.Printable(en.Reason))
	}
	for _, en := range binaries(all, plugin.ID{}) {
		if en.State == plugin.StateFailed {
			fmt.Fprintf(e.Stderr, "left out: %s: %s\n", output.Printable(en.Home), output.Printable(en.Reason))
			continue
		}
		p, err := find.ReadProgram(en.Home)
		if err != nil {
			return nil, err
		}
		out = append(out, lockable{p, en.Home})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is nothing to lock: no plugin that may run is in the folders of plugins; --plugin-dir adds one")
	}
	return out, nil
}

// lockedPlugin is one line of the result of plugins lock.
type lockedPlugin struct {
	ID       string `json:"id" yaml:"id"`
	Platform string `json:"platform" yaml:"platform"`
	Version  string `json:"version" yaml:"version"`
	SHA256   string `json:"sha256" yaml:"sha256"`
	File     string `json:"file" yaml:"file"`
	// Change is added, updated or unchanged. Before is the previous entry.
	Change string      `json:"change" yaml:"change"`
	Before *lockedItem `json:"before,omitempty" yaml:"before,omitempty"`
}

type lockedItem struct {
	Version string `json:"version" yaml:"version"`
	SHA256  string `json:"sha256" yaml:"sha256"`
}

func (e verbs) lockPlugins(ctx context.Context, path string, found []lockable, format output.Format) error {
	done := []lockedPlugin{}
	err := trust.UpdateLock(ctx, path, func(l *trust.Lock) error {
		for _, p := range found {
			d := lockedPlugin{ID: p.Manifest.ID.String(), Platform: p.Platform, Version: p.Manifest.Version, SHA256: p.SHA256, File: p.path, Change: "added"}
			if was, ok := l.Find(p.Manifest.ID, p.Platform); ok {
				d.Change, d.Before = "updated", &lockedItem{was.Version, was.SHA256}
				if was == p.Locked() {
					d.Change, d.Before = "unchanged", nil
				}
			}
			if err := l.Set(p.Manifest.ID, p.Platform, p.Locked()); err != nil {
				return err
			}
			done = append(done, d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return output.Print(e.Stdout, format, done, func(w io.Writer) {
		t := output.NewColumns("ID", "PLATFORM", "VERSION", "SHA256", "CHANGE", "FILE")
		for _, d := range done {
			change := d.Change
			if d.Before != nil {
				change += " from " + d.Before.Version
			}
			t.Row(d.ID, d.Platform, d.Version, short(d.SHA256), change, d.File)
		}
		_ = t.Write(w) // The writer keeps the error.
	})
}
