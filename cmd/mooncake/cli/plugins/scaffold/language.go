package scaffold

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Go is the language of the sdk itself.
const Go = "go"

// libraries are the folders of the sdk that hold the library of a language.
var libraries = map[string]string{"python": "python-plugin", "rust": "rust/mooncake-plugin"}

// Languages lists the languages of plugins to start from.
func Languages() []string { return []string{Go, "python", "rust"} }

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
