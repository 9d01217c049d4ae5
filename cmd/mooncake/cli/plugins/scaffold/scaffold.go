// Package scaffold writes a plugin to start from: a module of its own, in Go, Python or Rust, that
// builds, passes the conformance suite of its kind and runs in the demo, if the demo uses plugins of
// its kind, as it is.
//
// The templates lie in templates/<language>/common and templates/<language>/<kind>, at the paths that
// the files get; a name that begins with "dot-" begins with a dot in the module, the folder "main"
// below cmd is named like the program, and the folder "package" like the package.
// templates/<language>/<kind>/about.json has the texts of the README.
package scaffold

import (
	"bytes"
	"cmp"
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

//go:embed all:templates
var templates embed.FS

// Options say what to write.
type Options struct {
	// ID is the plugin's, valid.
	ID plugin.ID
	// Language is the language of the plugin, Go if it is empty.
	Language string
	// Module is the path of the new Go module. Other languages do not use it.
	Module string
	// SDK is where the sdk comes from.
	SDK SDK
	// Dir is the folder of the module, absolute, empty if it is not known. Write sets it.
	Dir string
}

// aboutKind is what differs between the kinds in the files that all of them have. It is read
// from templates/<language>/<kind>/about.json.
type aboutKind struct {
	About string
	// DemoFlag is the flag of `mooncake demo` that selects the plugin, empty for a kind that the demo
	// does not use.
	DemoFlag string
	Settings []struct{ Name, Default, About string }
	Files    []struct{ Name, About string }
}

const aboutFile = "about.json"

// about reads what the files say of a kind. Names of files may name the package.
func about(language, kind string, v values) (a aboutKind, err error) {
	text, err := render("templates/"+language+"/"+kind+"/"+aboutFile, aboutFile, v)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// InDemo reports whether the demo uses plugins of a kind.
func InDemo(kind string) bool {
	a, err := about(Go, kind, values{})
	return err == nil && a.DemoFlag != ""
}

// Kinds lists the kinds of plugins to start from in a language, none for an unknown language.
func Kinds(language string) []string {
	var out []string
	for _, kind := range plugin.Kinds() {
		if _, err := templates.ReadFile("templates/" + language + "/" + kind + "/" + aboutFile); err == nil {
			out = append(out, kind)
		}
	}
	return out
}

// values is what the templates see.
type values struct {
	aboutKind
	ID                 plugin.ID
	Kind, Name, Binary string
	Module, Package    string
	LocalSDK           bool
	SDKDir, SDKVersion string
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
	o.Language = cmp.Or(o.Language, Go)
	if err := o.check(); err != nil {
		return nil, err
	}
	v := values{
		ID: o.ID, Kind: o.ID.Kind, Name: o.ID.Name, Binary: o.ID.BinaryName(),
		Module: o.Module, Package: packageName(o.ID), LocalSDK: o.SDK.Dir != "", Release: o.SDK.Version,
		SDKDir: o.SDK.Dir, SDKVersion: strings.TrimPrefix(o.SDK.Version, "v"),
	}
	if o.Language != Go {
		v.Package = o.ID.Kind + "_" + strings.ReplaceAll(o.ID.Name, "-", "_")
	}
	var err error
	if v.aboutKind, err = about(o.Language, o.ID.Kind, v); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	base := "templates/" + o.Language + "/"
	for _, root := range []string{base + "common", base + o.ID.Kind} {
		err := fs.WalkDir(templates, root, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == aboutFile {
				return err
			}
			to := target(strings.TrimPrefix(from, root+"/"), v)
			out[to], err = render(from, to, v)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if o.Language == Go {
		err = o.SDK.addModule(out, o.Module, o.Dir)
	}
	return out, err
}

// check refuses options that make no module.
func (o Options) check() error {
	if err := o.ID.Validate(); err != nil {
		return err
	}
	kinds := Kinds(o.Language)
	if len(kinds) == 0 {
		return fmt.Errorf("there is nothing to start from in the language %q, only in %s", o.Language, strings.Join(Languages(), ", "))
	}
	if !slices.Contains(kinds, o.ID.Kind) {
		return fmt.Errorf("there is no %s to start from in the language %s, only %s; use --language go", o.ID.Kind, o.Language, strings.Join(kinds, ", "))
	}
	if o.Language != Go {
		return o.SDK.checkLanguage(o.Language)
	}
	if err := module.CheckImportPath(o.Module); err != nil {
		return fmt.Errorf("the module path cannot be used: %w", err)
	}
	return nil
}

// target is the path in the module of a template.
func target(template string, v values) string {
	parts := strings.Split(strings.TrimSuffix(template, ".tmpl"), "/")
	for i, p := range parts {
		if hidden, ok := strings.CutPrefix(p, "dot-"); ok {
			parts[i] = "." + hidden
		}
		if i > 0 && parts[i-1] == "cmd" {
			parts[i] = v.Binary
		}
		if p == "package" {
			parts[i] = v.Package
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
	var err error
	if o.Dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
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
