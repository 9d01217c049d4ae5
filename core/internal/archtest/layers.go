package archtest

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
)

// maxFiles is how many source files a package may have, without tests and generated code.
const maxFiles = 25

// maxUpward is how many uses between files of one package run upward, in all packages together. It may
// only become smaller: a change that needs one more moves a declaration instead.
const maxUpward = 165

// uses maps a file of a package to the files whose declarations it names, with how many different
// names it takes from each.
//
// Only functions, types, variables and constants count. Methods do not: a call through a value says
// nothing about the file in which the method stands.
type uses map[string]map[string]int

// fileUses parses the files of one package, given by their names in dir.
func fileUses(dir string, files []string) (uses, error) {
	declared := map[string]string{} // a name of the package to its file
	parsed := map[string]*ast.File{}
	fset := token.NewFileSet()
	for _, name := range files {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		parsed[name] = f
		for _, d := range f.Decls {
			for _, n := range names(d) {
				declared[n] = name
			}
		}
	}
	out := uses{}
	for name, f := range parsed {
		out[name] = map[string]int{}
		seen := map[string]bool{}
		for _, id := range f.Unresolved {
			if in, ok := declared[id.Name]; ok && in != name && !seen[id.Name] {
				seen[id.Name] = true
				out[name][in]++
			}
		}
	}
	return out, nil
}

// names are the names that a declaration adds to its package.
func names(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var out []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, id.Name)
				}
			}
		}
		return out
	}
	return nil
}

// layers orders the files so that few of them use a file above them, lowest first, and returns the
// uses that still run upward. Finding the fewest is hard in general; this moves one file at a time
// to its best place until no move helps. It finds no upward use if there is an order without any.
func (u uses) layers() (order []string, upward [][2]string) {
	order = u.bottomUp()
	for improved := true; improved; {
		improved = false
		for _, f := range slices.Sorted(slices.Values(order)) {
			from := slices.Index(order, f)
			best, to := 0, from
			for at, gain := from-1, 0; at >= 0; at-- {
				gain += u.upwards(f, order[at]) - u.upwards(order[at], f)
				if gain > best {
					best, to = gain, at
				}
			}
			for at, gain := from+1, 0; at < len(order); at++ {
				gain += u.upwards(order[at], f) - u.upwards(f, order[at])
				if gain > best {
					best, to = gain, at
				}
			}
			if to != from {
				order = slices.Insert(slices.Delete(order, from, from+1), to, f)
				improved = true
			}
		}
	}
	for i, low := range order {
		for _, high := range order[i+1:] {
			if u[low][high] > 0 {
				upward = append(upward, [2]string{low, high})
			}
		}
	}
	return order, upward
}

// upwards is 1 if the file high uses the file low, so that high must not come below it.
func (u uses) upwards(low, high string) int { return min(u[high][low], 1) }

// bottomUp takes the files that use nothing but files already taken, and one more wherever none is
// left: the one that uses the fewest of the rest.
func (u uses) bottomUp() []string {
	var order []string
	left := map[string]bool{}
	for f := range u {
		left[f] = true
	}
	for len(left) > 0 {
		open := func(f string) int {
			n := 0
			for g := range u[f] {
				if left[g] {
					n++
				}
			}
			return n
		}
		var rest []string
		for f := range left {
			rest = append(rest, f)
		}
		next := slices.MinFunc(rest, func(a, b string) int { return cmp.Or(open(a)-open(b), cmp.Compare(a, b)) })
		order = append(order, next)
		delete(left, next)
	}
	return order
}

// edges counts the pairs of files of which one uses the other.
func (u uses) edges() int {
	n := 0
	for _, to := range u {
		n += len(to)
	}
	return n
}
