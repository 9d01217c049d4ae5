package plugins

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins/scaffold"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e verbs) newCmd() *cobra.Command {
	var dir, module, sdk, language string
	cmd := &cobra.Command{
		Use:   "new KIND NAME",
		Short: "Write the skeleton of a plugin: a complete module that builds, passes the suite and runs",
		Long: `Writes a module of its own with a working plugin of the kind (` + strings.Join(plugin.Kinds(), ", ") + `), its
tests, manifest, settings, Makefile, README and CI file. It builds, passes the conformance
suite and, but for a tier, runs in the demo without an edit. The verb does not write into a folder
that is not empty.

The languages are go, python and rust; python has no transports.

The module depends only on the sdk: on the released version of this program, or on the folder
that --sdk names. In a checkout, or if the program is in one, the verb finds that folder.`,
		Example: `  mooncake plugins new evict mine
  mooncake plugins new evict mine --language python
  mooncake plugins new alloc mine --dir /tmp/alloc-mine --module example.com/alloc-mine
  mooncake plugins new evict mine --sdk ../mooncake/sdk`,
		Args: command.Args(2, 2, "a kind and a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := plugin.ID{Kind: args[0], Name: args[1]}
			if err := e.newPluginID(id); err != nil {
				return command.Usage(err)
			}
			from, err := e.findSDK(sdk)
			if err != nil {
				return command.Usage(err)
			}
			if module == "" {
				module = "example.com/" + id.Kind + "-" + id.Name
			}
			if dir == "" {
				dir = id.Kind + "-" + id.Name
			}
			target, err := filepath.Abs(dir)
			if err != nil {
				return command.Usage(err)
			}
			files, err := scaffold.Write(target, scaffold.Options{ID: id, Language: language, Module: module, SDK: from})
			if err != nil {
				return command.Usage(err)
			}
			e.toldOfNew(dir, id, language, from, files)
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&dir, "dir", "", "folder to write to (default: KIND-NAME)")
	f.StringVar(&module, "module", "", "path of the Go module (default: example.com/KIND-NAME); not for other languages")
	f.StringVar(&sdk, "sdk", "", "folder with the sdk, to depend on instead of a released version")
	f.StringVar(&language, "language", scaffold.Go, "language of the plugin: "+strings.Join(scaffold.Languages(), ", "))
	return cmd
}

// newPluginID rejects an invalid ID, and an ID that would never be selected.
func (e verbs) newPluginID(id plugin.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	for _, f := range e.Builtins {
		if f.Manifest().ID == id {
			return fmt.Errorf("%s is built in, so that a program of that name is not used where the mode is auto; choose another name", id)
		}
	}
	return nil
}

// released matches the versions that can be downloaded.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// findSDK returns the sdk on which a new module depends.
func (e verbs) findSDK(dir string) (scaffold.SDK, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return scaffold.SDK{}, err
		}
		return scaffold.SDK{Dir: abs}, scaffold.CheckDir(abs)
	}
	if released.MatchString(e.Version) {
		return scaffold.SDK{Version: e.Version}, nil
	}
	starts := []string{filepath.Dir(e.Program)}
	if wd, err := os.Getwd(); err == nil {
		starts = append([]string{wd}, starts...)
	}
	for _, start := range starts {
		for at := start; ; at = filepath.Dir(at) {
			if sdk := filepath.Join(at, "sdk"); scaffold.CheckDir(sdk) == nil {
				return scaffold.SDK{Dir: sdk}, nil
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return scaffold.SDK{}, fmt.Errorf("this program, version %s, is no release whose sdk could be downloaded, and lies in no checkout; give --sdk PATH, the folder sdk of a checkout", e.Version)
}

func (e verbs) toldOfNew(dir string, id plugin.ID, language string, from scaffold.SDK, files []string) {
	fmt.Fprintf(e.Stdout, "Wrote %s into %s: %d files.\n\n  cd %s\n", id, dir, len(files), dir)
	if language != scaffold.Go {
		fmt.Fprintln(e.Stdout, "  make test         # its own tests")
		fmt.Fprintln(e.Stdout, "  make conformance  # the suite on the program")
		if scaffold.InDemo(id.Kind) {
			fmt.Fprintln(e.Stdout, "  make demo         # the main job with it")
		}
		e.toldOfSDK(from)
		return
	}
	if from.Dir == "" {
		fmt.Fprintln(e.Stdout, "  go mod tidy")
	}
	fmt.Fprintln(e.Stdout, "  make test     # the conformance suite")
	if scaffold.InDemo(id.Kind) {
		fmt.Fprintln(e.Stdout, "  make demo     # the main job with it")
	} else {
		fmt.Fprintln(e.Stdout, "  make conformance  # the suite on the program")
	}
	e.toldOfSDK(from)
}

func (e verbs) toldOfSDK(from scaffold.SDK) {
	if from.Dir != "" {
		fmt.Fprintf(e.Stdout, "\nIt depends on the sdk in %s.\n", from.Dir)
	}
}
