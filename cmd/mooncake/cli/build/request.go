package build

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/checkout"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// source is a Go package and where its module comes from.
type source struct {
	// pkg is the import path of the package.
	pkg string
	// version is what the go command resolves; "latest" if the user gave none.
	version string
	// dir is an absolute folder that takes the place of a version, empty for none.
	dir string
	// module is the path of the module in dir.
	module string
}

// versionRE matches what the go command takes as a version: a version, a branch, a commit or a query.
var versionRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,127}$`)

// parseWith parses PACKAGE[@VERSION][=PATH].
func parseWith(text string) (source, error) {
	name, dir, local := strings.Cut(text, "=")
	pkg, version, versioned := strings.Cut(name, "@")
	s := source{pkg: pkg, version: version}
	if err := module.CheckImportPath(pkg); err != nil || !strings.Contains(strings.Split(pkg, "/")[0], ".") {
		return s, fmt.Errorf("--with %q: %q is no path of a Go module; the form is MODULE[@VERSION][=PATH], such as example.com/evict-fifo@v1.2.0 or example.com/evict-fifo=../evict-fifo", text, pkg)
	}
	switch {
	case versioned && !versionRE.MatchString(version):
		return s, fmt.Errorf("--with %q: %q is no version, such as v1.2.0, latest or a branch", text, version)
	case local && versioned:
		return s, fmt.Errorf("--with %q names a version and a folder; the sources of the folder have no version, so leave @%s out", text, version)
	case local:
		return s, s.readDir(dir)
	case !versioned:
		s.version = "latest"
	}
	return s, nil
}

// readDir makes a folder the source.
func (s *source) readDir(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	mod, err := checkout.Module(abs)
	if err != nil {
		return err
	}
	s.dir, s.module = abs, mod.Module.Mod.Path
	if s.pkg != s.module && !strings.HasPrefix(s.pkg, s.module+"/") {
		return fmt.Errorf("the folder %s has the module %s, not %s", abs, s.module, s.pkg)
	}
	_, major, _ := module.SplitPathVersion(s.module)
	s.version = "v0.0.0"
	if major != "" {
		s.version = strings.Trim(major, "/.") + ".0.0"
	}
	return nil
}

// String returns the source as the lock file has it.
func (s source) String() string {
	if s.dir != "" {
		return s.pkg + "=" + s.dir
	}
	return s.pkg + "@" + s.version
}

// parseCore parses the source of this project: a version, or a folder with a checkout.
func parseCore(text, current, program string) (source, error) {
	s := source{pkg: checkout.Core + "/cmd/mooncake/cli", module: checkout.Core, version: text}
	if text == "" {
		if semver.IsValid(current) {
			s.version = current
			return s, nil
		}
		dir, found := checkout.Find(program)
		if !found {
			return s, fmt.Errorf("this program, version %q, is no release that could be downloaded, and neither the program nor the working directory is in a checkout; give --core VERSION or --core PATH", current)
		}
		text = dir
	}
	if _, dir, ok := strings.Cut(text, "="); ok { // MODULE=PATH, as --with has it
		text = dir
	} else if semver.IsValid(text) || text == "latest" {
		return s, nil
	}
	if err := s.readDir(text); err != nil {
		return s, fmt.Errorf("--core: %w", err)
	}
	if s.module != checkout.Core {
		return s, fmt.Errorf("--core: the folder %s has the module %s, not %s", s.dir, s.module, checkout.Core)
	}
	return s, nil
}

// request is what a user asks for. Two equal requests give the same program.
type request struct {
	core    source
	with    []source
	without []plugin.ID
}

func newRequest(core source, with, without []string) (request, error) {
	r := request{core: core}
	if len(with) == 0 {
		return r, fmt.Errorf("there is nothing to link in; give --with MODULE[@VERSION][=PATH] at least once")
	}
	for _, text := range with {
		s, err := parseWith(text)
		if err != nil {
			return r, err
		}
		if slices.ContainsFunc(r.with, func(other source) bool { return other.pkg == s.pkg }) {
			return r, fmt.Errorf("--with names %s twice", s.pkg)
		}
		r.with = append(r.with, s)
	}
	for _, text := range without {
		id, err := plugin.ParseID(text)
		if err != nil {
			return r, fmt.Errorf("--without: %w", err)
		}
		r.without = append(r.without, id)
	}
	return r, nil
}

// tags are the build tags that leave built-in plugins out.
func (r request) tags() string {
	var out []string
	for _, id := range r.without {
		out = append(out, "mooncake_no_"+id.Kind+"_"+strings.ReplaceAll(id.Name, "-", "_"))
	}
	return strings.Join(out, ",")
}

// texts are the sources and what is left out, as the lock file has them.
func (r request) texts() (with, without []string) {
	for _, s := range r.with {
		with = append(with, s.String())
	}
	for _, id := range r.without {
		without = append(without, id.String())
	}
	return with, without
}
