package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/checkout"
)

const (
	// modulePath is that of the generated module.
	modulePath = "mooncake.local/linked"
	// goVersion is the least release of Go; the modules that are linked in raise it.
	goVersion = "1.26.0"
)

// mainFile is the program: that of cmd/mooncake with more plugins.
func mainFile(with []source) []byte {
	var b strings.Builder
	b.WriteString("// Command mooncake with plugins that mooncake build linked in.\npackage main\n\nimport (\n\t\"os\"\n\n")
	fmt.Fprintf(&b, "\t%q\n\t%q\n", checkout.Core+"/cmd/mooncake/builtin", checkout.Core+"/cmd/mooncake/cli")
	for i, s := range with {
		fmt.Fprintf(&b, "\tplugin%d %q\n", i, s.pkg)
	}
	b.WriteString(")\n\nfunc main() {\n\tplugins := builtin.Plugins()\n")
	for i := range with {
		fmt.Fprintf(&b, "\tplugins = append(plugins, plugin%d.Factory())\n", i)
	}
	b.WriteString("\tos.Exit(cli.Main(os.Args, plugins))\n}\n")
	return []byte(b.String())
}

// modFile is the go.mod before the go command has resolved versions.
func (r request) modFile() ([]byte, error) {
	f := new(modfile.File)
	err := errors.Join(f.AddModuleStmt(modulePath), f.AddGoStmt(goVersion))
	local := func(path, version, dir string) {
		err = errors.Join(err, f.AddRequire(path, version), f.AddReplace(path, "", dir, ""))
	}
	if dir := r.core.dir; dir != "" {
		local(checkout.Core, r.core.version, dir)
		local(checkout.SDK, r.core.version, filepath.Join(dir, "sdk"))
	}
	for _, s := range r.with {
		if s.dir != "" {
			local(s.module, s.version, s.dir)
		}
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

// files writes the generated module into dir.
func (r request) files(dir string, l *lock) error {
	mod, sum := []byte(nil), []byte(nil)
	var err error
	if l != nil {
		mod, sum = []byte(l.GoMod), []byte(l.GoSum)
	} else if mod, err = r.modFile(); err != nil {
		return err
	} else if r.core.dir != "" { // The checksums that the checkout was tested with.
		if sum, err = os.ReadFile(filepath.Join(r.core.dir, "go.sum")); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "main.go"), mainFile(r.with), 0o600),
		os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600),
	)
}

// platforms are those for which a lock file has the checksums.
func platforms() []string { return []string{"amd64", "arm64"} }

// resolve chooses the versions of all modules and records their checksums in go.mod and go.sum.
func (r request) resolve(ctx context.Context, g gotool) error {
	get := []string{"get"}
	if r.core.dir == "" {
		get = append(get, r.core.pkg+"@"+r.core.version)
	}
	for _, s := range r.with {
		if s.dir == "" {
			get = append(get, s.pkg+"@"+s.version)
		}
	}
	if len(get) > 1 {
		if _, err := g.run(ctx, nil, get...); err != nil {
			return r.unresolved(err)
		}
	}
	for _, arch := range platforms() {
		if _, err := g.run(ctx, []string{"GOOS=linux", "GOARCH=" + arch}, "list", "-mod=mod", "-deps", "-tags", r.tags(), "."); err != nil {
			return r.unresolved(err)
		}
	}
	return nil
}

// unresolved adds to an error of the go command what a user can do about it.
func (r request) unresolved(err error) error {
	if r.core.dir == "" && strings.Contains(err.Error(), checkout.Core) {
		return fmt.Errorf("%w\n%s %s cannot be downloaded; give --core PATH, a checkout, or set GOPROXY to a proxy that has it", err, checkout.Core, r.core.version)
	}
	return fmt.Errorf("%w\na module cannot be resolved; check the path and the version of --with and GOPROXY, or give MODULE=PATH for sources on this machine", err)
}
