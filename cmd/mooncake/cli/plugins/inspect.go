package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

func (e verbs) inspectCmd() *cobra.Command {
	var f trustFlags
	var run bool
	cmd := &cobra.Command{
		Use:   "inspect ID|FILE",
		Short: "Show everything that is known about a plugin",
		Long: `Shows the manifest of a plugin, its settings, checksum and trust, where it was found, and which
other files have the same name. A FILE may be in any folder.

The plugin is not run, unless --run is given: then a program is started, if the rules of trust
permit it, and asked which settings it accepts. What differs from its manifest is shown, and the
exit code is 1 if anything does.`,
		Example: `  mooncake plugins inspect evict/prefix
  mooncake plugins inspect ./mooncake-plugin-evict-fifo --run
  mooncake plugins inspect transport/tcp -o json`,
		Args: command.Args(1, 1, "one ID or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := targetOf(args[0])
			if err != nil {
				return err
			}
			if run && target.file != "" {
				f.dirs = append([]string{filepath.Dir(target.file)}, f.dirs...)
			}
			t, err := e.trusting(f, "")
			if err != nil {
				return err
			}
			in, err := e.inspect(t, target)
			if err != nil {
				return err
			}
			if run {
				if in.Differences, err = differences(cmd.Context(), t.catalog, in); err != nil {
					return err
				}
			}
			if err = output.Print(e.Stdout, f.format, in, in.write); err == nil && len(in.Differences) > 0 {
				err = &command.Quiet{Code: command.ExitFailure}
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&run, "run", false, "start the program, and show where its settings differ from its manifest")
	return cmd
}

// inspection is the output of plugins inspect.
type inspection struct {
	ID           string   `json:"id" yaml:"id"`
	Version      string   `json:"version" yaml:"version"`
	Summary      string   `json:"summary" yaml:"summary"`
	Stability    string   `json:"stability" yaml:"stability"`
	API          []uint   `json:"api" yaml:"api"`
	HostAPI      []uint   `json:"host_api" yaml:"host_api"`
	Capabilities []string `json:"capabilities" yaml:"capabilities"`
	Home         string   `json:"home" yaml:"home"`
	State        string   `json:"state" yaml:"state"`
	Reason       string   `json:"reason,omitempty" yaml:"reason,omitempty"`
	Platform     string   `json:"platform,omitempty" yaml:"platform,omitempty"`
	Size         int64    `json:"size,omitempty" yaml:"size,omitempty"`
	SHA256       string   `json:"sha256,omitempty" yaml:"sha256,omitempty"`
	// Trust is as in plugins list. Lock is the lock file that was read.
	Trust string `json:"trust,omitempty" yaml:"trust,omitempty"`
	Lock  string `json:"lock,omitempty" yaml:"lock,omitempty"`
	// Locked has the entries of the lock file by platform.
	Locked map[string]lockedItem `json:"locked,omitempty" yaml:"locked,omitempty"`
	// Others have the same name, in the order of the search: those before the shown one take
	// precedence over it, those after it have no effect.
	Others []otherHome `json:"others" yaml:"others"`
	// Schema is the JSON Schema of the settings.
	Schema any `json:"config_schema,omitempty" yaml:"config_schema,omitempty"`
	// Differences are those of the settings in the manifest from what the program accepts, a sentence each, with --run.
	Differences []string `json:"differences,omitempty" yaml:"differences,omitempty"`
}

type otherHome struct {
	Home    string `json:"home" yaml:"home"`
	Version string `json:"version,omitempty" yaml:"version,omitempty"`
	State   string `json:"state" yaml:"state"`
	Reason  string `json:"reason,omitempty" yaml:"reason,omitempty"`
	// First reports that mode auto uses this one and not the one that is shown.
	First bool `json:"first" yaml:"first"`
}

// differences asks the plugin that is shown which settings it accepts.
func differences(ctx context.Context, c *pluginhost.Catalog, in inspection) ([]string, error) {
	ctx, stop := command.UntilInterrupted(ctx)
	defer stop()
	id, err := plugin.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	mode := pluginhost.ModeSubprocess
	if in.Home == pluginhost.HomeBuiltin {
		mode = pluginhost.ModeInProcess
	}
	found, err := c.Differences(ctx, id, pluginhost.Spec{Mode: mode})
	return found, errors.Join(err, c.Close(ctx))
}

func (e verbs) inspect(t trusting, what target) (inspection, error) {
	in := inspection{API: []uint{}, HostAPI: []uint{}, Capabilities: []string{}, Others: []otherHome{}}
	id := what.id
	if what.file != "" {
		p, err := find.ReadProgram(what.file)
		if err != nil {
			return in, err
		}
		id = p.Manifest.ID
		in.describe(p.Manifest)
		in.Home, in.State, in.Platform, in.Size, in.SHA256 = what.file, "not searched", p.Platform, p.Size, p.SHA256
	}
	var same []pluginhost.Entry
	for _, en := range t.catalog.List() {
		if en.ID() == id {
			same = append(same, en)
		}
	}
	usable := func(en pluginhost.Entry) bool { return en.State != plugin.StateFailed }
	first := slices.IndexFunc(same, usable)
	shown := slices.IndexFunc(same, func(en pluginhost.Entry) bool { return en.Home == what.file })
	if what.file == "" {
		if len(same) == 0 {
			return in, e.absent(id)
		}
		shown = max(first, 0)
	}
	if shown >= 0 {
		in.found(same[shown])
	}
	for i, en := range same {
		if i != shown {
			in.Others = append(in.Others, otherHome{en.Home, en.Version, string(en.State), en.Reason, i == first})
		}
	}
	in.compare(t, id)
	return in, nil
}

// found adds the catalog's entry of the plugin.
func (in *inspection) found(en pluginhost.Entry) {
	in.describe(en.Manifest())
	in.ID, in.Home, in.State, in.Reason, in.Trust = en.ID().String(), en.Home, string(en.State), en.Reason, en.Trust
	if en.SHA256 != "" {
		in.SHA256 = en.SHA256
	}
	if f, err := os.Open(en.Home); err == nil && !isBuiltin(en) {
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			in.Size = info.Size()
		}
		in.Platform, _ = trust.PlatformOf(f)
	}
}

func (in *inspection) describe(m plugin.Manifest) {
	if m.Name == "" {
		return
	}
	in.ID, in.Version, in.Summary, in.Stability = m.String(), m.Version, m.Summary, string(m.Stability)
	in.API, in.HostAPI, in.Capabilities = append([]uint{}, m.API...), kinds.API(m.Kind), []string{}
	for _, c := range m.Capabilities {
		in.Capabilities = append(in.Capabilities, string(c))
	}
	if len(m.ConfigSchema) > 0 && json.Unmarshal(m.ConfigSchema, &in.Schema) != nil {
		in.Schema = nil
	}
}

// compare adds the entries of the lock file.
func (in *inspection) compare(t trusting, id plugin.ID) {
	if t.lock == "" || in.Trust == trust.BuiltIn {
		return
	}
	in.Lock = t.lock
	l, err := trust.ReadLock(t.lock)
	if err != nil {
		in.Reason = strings.TrimPrefix(in.Reason+"; "+err.Error(), "; ")
		return
	}
	_, all := l.Platforms(id)
	for platform, e := range all {
		if in.Locked == nil {
			in.Locked = map[string]lockedItem{}
		}
		in.Locked[platform] = lockedItem{e.Version, e.SHA256}
	}
	if in.Trust == "" && in.SHA256 != "" {
		switch e, ok := l.Find(id, in.Platform); {
		case !ok:
			in.Trust = trust.Unlocked
		case e.SHA256 == in.SHA256:
			in.Trust = trust.IsLocked
		default:
			in.Trust = trust.Mismatch
		}
	}
}

func (in *inspection) write(w io.Writer) {
	t := output.NewColumns()
	line := func(name, text string) {
		if text != "" {
			t.Row(name, text)
		}
	}
	line("plugin", in.ID)
	line("summary", in.Summary)
	line("version", in.Version)
	line("stability", in.Stability)
	line("contract", apis(in.API)+"; this program speaks "+apis(in.HostAPI))
	line("capabilities", output.Dash(strings.Join(in.Capabilities, ", ")))
	line("home", in.Home)
	line("state", in.State)
	line("reason", in.Reason)
	line("platform", in.Platform)
	if in.Size > 0 {
		line("size", fmt.Sprintf("%d bytes", in.Size))
	}
	line("sha256", in.SHA256)
	line("trust", in.Trust)
	line("lock file", in.Lock)
	for _, platform := range slices.Sorted(maps.Keys(in.Locked)) {
		line("locked", platform+" "+in.Locked[platform].Version+" "+in.Locked[platform].SHA256)
	}
	for _, o := range in.Others {
		text := o.Home + " " + output.Dash(o.Version) + ", " + o.State
		if o.First {
			text += ", comes first"
		}
		if o.Reason != "" {
			text += ": " + o.Reason
		}
		line("also there", text)
	}
	for _, d := range in.Differences {
		line("difference", d)
	}
	_ = t.Write(w) // The writer keeps the error.
	writeSettings(w, in.ID, in.Schema)
}
