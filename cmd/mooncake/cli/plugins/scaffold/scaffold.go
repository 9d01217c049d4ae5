package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"

	"golang.org/x/mod/module"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

//go:embed templates
var templates embed.FS

// Options say what to write.
type Options struct {
	// ID is the plugin's, valid.
	ID plugin.ID
	// Module is the path of the new Go module.
	Module string
	// SDK is where the sdk comes from.
	SDK SDK
}

// kindTexts is what differs between the kinds in the files that all of them have.
type kindTexts struct {
	About     string
	DemoFlags string
	Settings  string
	Files     []file
}

type file struct{ Name, About string }

func texts(id plugin.ID) kindTexts {
	switch id.Kind {
	case plugin.KindEvict:
		return kindTexts{
			About:     "An eviction policy: what was not used for longest goes first.",
			DemoFlags: "--evictor " + id.Name,
			Settings:  settings("`expected_objects`", "1024", "for how many objects room is made at the start"),
			Files: []file{
				{"policy.go", "the policy; `used` is where one of your own begins"},
				{"policy_test.go", "the conformance suite, and the policy's own order"},
			},
		}
	case plugin.KindAlloc:
		return kindTexts{
			About:     "An allocator: the lowest gap that is large enough is taken.",
			DemoFlags: "--allocator " + id.Name,
			Settings:  settings("`granule_bytes`", "64", "offsets are multiples of it, a power of two"),
			Files: []file{
				{"allocator.go", "the calls of the contract"},
				{"space.go", "one space; `find` is where an allocator of your own begins"},
				{"allocator_test.go", "the conformance suite, and the allocator's own order"},
			},
		}
	case plugin.KindTransport:
		return kindTexts{
			About:     "A transport: one TCP connection a peer, requests answered one after the other.",
			DemoFlags: "--transport " + id.Name,
			Settings: settings("`host`", "127.0.0.1", "address to listen on and to tell peers; the default is for one machine only") +
				"\n| `port` | 0 | port to listen on; 0 takes a free one |" +
				"\n| `timeout` | 10s | for connecting, and for an operation without a deadline of its own |" +
				"\n| `max_inflight_bytes` | 67108864 | bytes of one path's operations in flight, before it pushes back |",
			Files: []file{
				{"node.go", "the transport: start, stop, register, dial"},
				{"region.go", "registered memory, and the requests that use it"},
				{"serve.go", "the side that peers talk to"},
				{"guest.go", "a peer's connection, and what `Stop` tells it"},
				{"path.go", "a path to a peer, on `sdk/transport/pathkit`"},
				{"session.go", "the path's connection: what a transport of your own does otherwise"},
				{"wire.go", "what goes over the connection, endpoints and keys"},
				{"node_test.go", "the conformance suite, and a fuzzer for the decoders"},
				{"stop_test.go", "what peers hear of a `Stop`"},
			},
		}
	default:
		return kindTexts{}
	}
}

func settings(name, value, about string) string {
	return "| setting | default | |\n|---|---|---|\n| " + name + " | " + value + " | " + about + " |"
}

// Kinds lists the kinds that there is something to start from for.
func Kinds() []string {
	var out []string
	for _, k := range plugin.Kinds() {
		if _, err := fs.Stat(templates, "templates/"+k); err == nil {
			out = append(out, k)
		}
	}
	return out
}

// values is what the templates see.
type values struct {
	kindTexts
	ID                 plugin.ID
	Kind, Name, Binary string
	Module, Package    string
	LocalSDK           bool
}

// Files makes the module in memory, by path. Go files are formatted.
func Files(o Options) (map[string][]byte, error) {
	if err := o.ID.Validate(); err != nil {
		return nil, err
	}
	if err := module.CheckImportPath(o.Module); err != nil {
		return nil, fmt.Errorf("the module path cannot be used: %w", err)
	}
	if !slices.Contains(Kinds(), o.ID.Kind) {
		return nil, fmt.Errorf("there is nothing to start from for kind %s, only for %s", o.ID.Kind, strings.Join(Kinds(), ", "))
	}
	v := values{
		kindTexts: texts(o.ID), ID: o.ID, Kind: o.ID.Kind, Name: o.ID.Name, Binary: o.ID.BinaryName(),
		Module: o.Module, Package: packageName(o.ID), LocalSDK: o.SDK.Dir != "",
	}
	out := map[string][]byte{}
	for _, root := range []string{"templates/common", "templates/" + o.ID.Kind} {
		err := fs.WalkDir(templates, root, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			to := target(strings.TrimPrefix(from, root+"/"), v.Binary)
			out[to], err = render(from, to, v)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, o.SDK.addModule(out, o.Module)
}

// target is the path in the module of a template.
func target(template, binary string) string {
	parts := strings.Split(strings.TrimSuffix(template, ".tmpl"), "/")
	for i, p := range parts {
		if hidden, ok := strings.CutPrefix(p, "dot-"); ok {
			parts[i] = "." + hidden
		}
		if i > 0 && parts[i-1] == "cmd" {
			parts[i] = binary
		}
	}
	return path.Join(parts...)
}

func render(from, to string, v values) ([]byte, error) {
	text, err := templates.ReadFile(from)
	if err != nil {
		return nil, err
	}
	t, err := template.New(to).Delims("[[", "]]").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, v); err != nil {
		return nil, err
	}
	if path.Ext(to) != ".go" {
		return buf.Bytes(), nil
	}
	code, err := format.Source(buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	return code, nil
}

// Write writes the module into a folder that is empty or not there yet, and returns the
// paths of the files. It never changes a file that exists, and leaves nothing behind when
// it fails.
func Write(dir string, o Options) ([]string, error) {
	files, err := Files(o)
	if err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case len(there) > 0:
		return nil, fmt.Errorf("the folder %s is not empty: it holds %s; give another --dir", dir, there[0].Name())
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	// Beside its place, so that it appears there as a whole.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".mooncake-new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	for _, name := range names {
		file := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	// The system's own rename takes the place of an empty folder, and fails for one that is not.
	if err := syscall.Rename(tmp, dir); err != nil {
		return nil, fmt.Errorf("put the module into %s: %w", dir, err)
	}
	return names, nil
}
