package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// goPackage is a package as `go list` describes it.
type goPackage struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	EmbedFiles []string
}

// inspect checks, before anything is compiled, that each package has a plugin, and that no plugin would
// be linked in twice. builtin are the plugins that are built in.
func (r request) inspect(ctx context.Context, g gotool, builtin []plugin.ID) error {
	args := []string{"list", "-mod=readonly", "-json=ImportPath,Name,Dir,GoFiles,EmbedFiles"}
	for _, s := range r.with {
		args = append(args, s.pkg)
	}
	out, err := g.run(ctx, nil, args...)
	if err != nil {
		return err
	}
	owners := map[plugin.ID]string{}
	for _, id := range builtin {
		owners[id] = "this program"
	}
	for _, id := range r.without {
		delete(owners, id)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if err := p.check(owners); err != nil {
			return err
		}
	}
}

func (p goPackage) check(owners map[plugin.ID]string) error {
	switch found, err := p.factory(); {
	case err != nil:
		return err
	case p.Name == "main":
		return fmt.Errorf("%s is a program, which cannot be linked in; name the package of its module that has func Factory", p.ImportPath)
	case !found:
		return fmt.Errorf("%s has no plugin that can be linked in: there is no func Factory() without arguments; see docs/plugins/writing.md, or name the package of the module that has it", p.ImportPath)
	}
	id, found, err := p.id()
	if err != nil || !found {
		return err // Without a manifest of its own the package takes that of another, and only the program knows it.
	}
	if owner := owners[id]; owner != "" {
		hint := ""
		if owner == "this program" {
			hint = fmt.Sprintf("; give --without %s to leave the built-in one out", id)
		}
		return fmt.Errorf("%s has %s, which %s has too, and one name can be linked in once%s", p.ImportPath, id, owner, hint)
	}
	owners[id] = p.ImportPath
	return nil
}

// factory reports whether the package has a function Factory that can be called without arguments.
func (p goPackage) factory() (bool, error) {
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "Factory" && fn.Type.Params.NumFields() == 0 && fn.Type.Results.NumFields() == 1 {
				return true, nil
			}
		}
	}
	return false, nil
}

// id reads the plugin's name from the manifest that the package embeds.
func (p goPackage) id() (plugin.ID, bool, error) {
	for _, names := range [][]string{p.EmbedFiles, p.GoFiles} {
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return plugin.ID{}, false, err
			}
			if m, err := plugin.ScanManifest(text); err == nil {
				return m.ID, true, nil
			}
		}
	}
	return plugin.ID{}, false, nil
}
