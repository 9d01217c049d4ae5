package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// SDKModule is the path of the module that plugins depend on.
const SDKModule = "github.com/mooncake-go/mooncake/sdk"

// Go is the language of the sdk itself.
const Go = "go"

// libraries are the folders of the sdk that hold the library of a language.
var libraries = map[string]string{"python": "python-plugin", "rust": "rust/mooncake-plugin"}

// Languages lists the languages of plugins to start from.
func Languages() []string { return []string{Go, "python", "rust"} }

// SDK is where the sdk comes from: a released version, or a folder that holds it.
type SDK struct {
	// Version is a released version, v1.2.3.
	Version string
	// Dir is a folder with the sdk, absolute; it takes the place of a version.
	Dir string
}

// goVersion is what a module says that depends on a released sdk; its own go.mod raises it
// with `go mod tidy`.
const goVersion = "1.26.0"

// check says whether a version or a folder is given.
func (s SDK) check() error {
	if s.Dir == "" && s.Version == "" {
		return errors.New("neither a version nor a folder of the sdk is given")
	}
	return nil
}

// checkLanguage says whether the sdk has the library of a language, under a path that the files of a
// module can name.
func (s SDK) checkLanguage(language string) error {
	if s.Dir == "" {
		return s.check()
	}
	if err := CheckDir(s.Dir); err != nil {
		return err
	}
	lib := filepath.Join(s.Dir, libraries[language])
	if _, err := os.Stat(lib); err != nil {
		return fmt.Errorf("the sdk in %s has no library for %s: %w", s.Dir, language, err)
	}
	if escaped := (&url.URL{Path: s.Dir}).EscapedPath(); escaped != s.Dir || strings.Contains(s.Dir, "'") {
		return fmt.Errorf("the path of the sdk, %q, has characters that requirements of %s cannot name; move it", s.Dir, language)
	}
	return nil
}

// CheckDir says whether a folder holds the sdk.
func CheckDir(dir string) error {
	_, err := readMod(dir)
	return err
}

// from returns the path of the sdk for the go.mod of a module in a folder. In the checkout of the sdk it is relative, so that the module
// builds wherever the checkout is.
func (s SDK) from(dir string) (path string, portable bool) {
	inside, err := filepath.Rel(filepath.Dir(s.Dir), dir)
	if dir == "" || err != nil || !filepath.IsLocal(inside) {
		return s.Dir, false
	}
	path, err = filepath.Rel(dir, s.Dir)
	if err != nil {
		return s.Dir, false
	}
	return filepath.ToSlash(path), true
}

func readMod(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("there is no sdk in %s: %w", dir, err)
	}
	mod, err := modfile.ParseLax(name, text, nil)
	if err != nil {
		return nil, err
	}
	if mod.Module == nil || mod.Module.Mod.Path != SDKModule {
		return nil, fmt.Errorf("there is no sdk in %s: its go.mod is that of another module; give the folder sdk of a checkout", dir)
	}
	return mod, nil
}

// addModule adds go.mod, and with a folder go.sum: what the sdk needs, the new module
// needs as well, in the versions that the sdk was tested with. The module is in dir, empty if that is not known.
func (s SDK) addModule(files map[string][]byte, path, dir string) error {
	out := new(modfile.File)
	if err := out.AddModuleStmt(path); err != nil {
		return err
	}
	if s.Dir == "" {
		if err := s.check(); err != nil {
			return err
		}
		out.AddNewRequire(SDKModule, s.Version, false)
		return errors.Join(out.AddGoStmt(goVersion), formatted(files, out))
	}
	mod, err := readMod(s.Dir)
	if err != nil {
		return err
	}
	if mod.Go != nil {
		if err := out.AddGoStmt(mod.Go.Version); err != nil {
			return err
		}
	}
	requires := []*modfile.Require{{Mod: module.Version{Path: SDKModule, Version: "v0.0.0"}}}
	for _, r := range mod.Require {
		requires = append(requires, &modfile.Require{Mod: r.Mod, Indirect: true})
	}
	out.SetRequireSeparateIndirect(requires)
	to, portable := s.from(dir)
	if err := out.AddReplace(SDKModule, "", to, ""); err != nil {
		return err
	}
	if !portable {
		out.Replace[0].Syntax.Before = []modfile.Comment{{Token: "// The sdk in a checkout on this machine. Elsewhere: go mod edit -replace " + SDKModule + "=PATH"}}
	}
	sum, err := os.ReadFile(filepath.Join(s.Dir, "go.sum"))
	switch {
	case err == nil:
		files["go.sum"] = sum
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return formatted(files, out)
}

func formatted(files map[string][]byte, mod *modfile.File) error {
	mod.Cleanup()
	text, err := mod.Format()
	files["go.mod"] = text
	return err
}
