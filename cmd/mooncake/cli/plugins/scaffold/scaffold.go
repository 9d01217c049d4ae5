// Package scaffold writes a plugin to start from: a Go module of its own that builds, passes the
// conformance suite of its kind and runs in the demo, if the demo uses plugins of its kind, as it is.
//
// The templates lie in templates/common and templates/<kind>, at the paths that the files get; a
// name that begins with "dot-" begins with a dot in the module, and the folder "main" below cmd
// is named like the program. templates/<kind>/about.json has the texts of the README.
package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
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

// aboutKind is what differs between the kinds in the files that all of them have. It is read
// from templates/<kind>/about.json.
type aboutKind struct {
	About string
	// DemoFlag is the flag of `mooncake demo` that selects the plugin, empty for a kind that the demo
	// does not use.
	DemoFlag string
	Settings []struct{ Name, Default, About string }
	Files    []struct{ Name, About string }
}

const aboutFile = "about.json"

func about(kind string) (a aboutKind, err error) {
	text, err := templates.ReadFile("templates/" + kind + "/" + aboutFile)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// InDemo reports whether the demo uses plugins of a kind.
func InDemo(kind string) bool {
	a, err := about(kind)
	return err == nil && a.DemoFlag != ""
}

// values is what the templates see.
type values struct {
	aboutKind
	ID                 plugin.ID
	Kind, Name, Binary string
	Module, Package    string
	LocalSDK           bool
	// Release is the version of this project that the module is for, empty with LocalSDK.
	Release string
}

// Try is what make does to run the plugin.
func (v values) Try() string {
	if v.DemoFlag == "" {
		return "conformance"
	}
	return "demo"
}

// Files makes the module in memory, by path. Go files are formatted.
func Files(o Options) (map[string][]byte, error) {
	if err := o.ID.Validate(); err != nil {
		return nil, err
	}
	if err := module.CheckImportPath(o.Module); err != nil {
		return nil, fmt.Errorf("the module path cannot be used: %w", err)
	}
	v := values{
		ID: o.ID, Kind: o.ID.Kind, Name: o.ID.Name, Binary: o.ID.BinaryName(),
		Module: o.Module, Package: packageName(o.ID), LocalSDK: o.SDK.Dir != "", Release: o.SDK.Version,
	}
	var err error
	if v.aboutKind, err = about(o.ID.Kind); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, root := range []string{"templates/common", "templates/" + o.ID.Kind} {
		err := fs.WalkDir(templates, root, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == aboutFile {
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
