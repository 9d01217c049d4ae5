package pluginhost

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// policy returns which rights a process of the plugin keeps. program is what will run.
func (s starter[T]) policy(program io.Reader) sandbox.Policy {
	kind := s.entry.Kind
	p := sandbox.Policy{
		Mode:    s.c.opts.Sandbox,
		Memory:  kind == plugin.KindTransport || kind == plugin.KindTier,
		Network: kind == plugin.KindTransport || kind == plugin.KindTier,
		Peers:   kind == plugin.KindTransport,
		Read:    append([]string{filepath.Dir(s.entry.Home)}, s.spec.Read...),
		Write:   append([]string{}, s.spec.Write...),
	}
	if p.Mode == "" || p.Mode == sandbox.ModeOff {
		return p
	}
	p.Read = append(p.Read, interpreterFolders(program)...)
	if kind == plugin.KindTransport {
		p.Write = append(p.Write, "/dev/infiniband")
		f := s.security().Files
		for _, file := range []string{f.CA, f.Cert, f.Key} {
			if file != "" {
				p.Read = append(p.Read, filepath.Dir(file)) // The file may be replaced, and the folder stays.
			}
		}
	}
	eachPath(s.spec.Config, func(path string) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case kind == plugin.KindTier:
			p.Write = append(p.Write, path)
		case info.IsDir():
			p.Read = append(p.Read, path)
		default:
			p.Read = append(p.Read, filepath.Dir(path))
		}
	})
	return p
}

// eachPath calls f for every absolute path in the settings of a plugin, apart from the root.
func eachPath(value any, f func(path string)) {
	switch v := value.(type) {
	case string:
		if path := filepath.Clean(v); filepath.IsAbs(v) && path != "/" {
			f(path)
		}
	case []any:
		for _, x := range v {
			eachPath(x, f)
		}
	case []string:
		for _, x := range v {
			eachPath(x, f)
		}
	case map[string]any:
		for _, x := range v {
			eachPath(x, f)
		}
	}
}

// maxShebang bounds the first line of a script, as the kernel does.
const maxShebang = 256

// interpreterFolders returns the folders from which the interpreter of a script and its modules are read, none for a
// program that is no script.
func interpreterFolders(program io.Reader) []string {
	line, _ := bufio.NewReaderSize(io.LimitReader(program, maxShebang), maxShebang).ReadString('\n')
	text, script := strings.CutPrefix(line, "#!")
	words := strings.Fields(text)
	if !script || len(words) == 0 {
		return nil
	}
	path := words[0]
	if filepath.Base(path) == "env" && len(words) > 1 {
		name := words[len(words)-1]
		found, err := exec.LookPath(name)
		if err != nil {
			return nil
		}
		path = found
	}
	out := []string{installed(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		out = append(out, installed(real))
	}
	return out
}

// installed returns the folder that an interpreter was installed into: the one above bin, unless that holds much
// else, such as a home folder.
func installed(path string) string {
	dir := filepath.Dir(path)
	above := filepath.Dir(dir)
	if home, err := os.UserHomeDir(); filepath.Base(dir) != "bin" || above == "/" || err == nil && above == filepath.Clean(home) {
		return dir
	}
	return above
}
