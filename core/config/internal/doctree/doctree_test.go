package doctree

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLines(t *testing.T) {
	yamlText := "a: 1\nb:\n  c: x # note\n  d: [1, 2]\n"
	jsonText := "{\n\t\"a\": 1,\n\t\"b\": {\n\t\t\"c\": \"x\",\n\t\t\"d\": [1,\n 2]\n}\n}"
	for name, c := range map[string]struct {
		parse func([]byte) (Node, error)
		text  string
		lines [4]int
	}{
		"yaml": {ParseYAML, yamlText, [4]int{1, 2, 3, 4}},
		"json": {ParseJSON, jsonText, [4]int{2, 3, 4, 5}},
	} {
		n, err := c.parse([]byte(c.text))
		require.NoError(t, err, name)
		b := n.Fields[1].Value
		got := [4]int{n.Fields[0].Value.Line, b.Line, b.Fields[0].Value.Line, b.Fields[1].Value.Line}
		require.Equal(t, c.lines, got, name)
		require.Equal(t, map[string]any{"a": int64(1), "b": map[string]any{"c": "x", "d": []any{int64(1), int64(2)}}}, n.Any(), name)
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct {
		name, text string
		line       int
		contains   string
	}{
		{"f.yaml", "", 0, "empty"},
		{"f.yaml", "# only a comment\n", 0, "empty"},
		{"f.yaml", "---\n", 0, "empty"},
		{"f.json", " \n ", 0, "empty"},
		{"f.json", "null", 0, "empty"},
		{"f.yaml", "- a\n- b\n", 1, "a list"},
		{"f.yaml", "text", 1, "a single value"},
		{"f.json", "[1]", 1, "a list"},
		{"f.yaml", "a: 1\nb: 2\na: 3\n", 3, "line 1"},
		{"f.json", "{\"a\": 1,\n\"a\": 2}", 2, "line 1"},
		{"f.yaml", "a: 1\n b: 2\n", 2, "not valid YAML"},
		{"f.yaml", "a: 1\n\tb: 2\n", 2, "not valid YAML"},
		{"f.json", "{\"a\": 1,\n \"b\" 2}", 2, "not valid JSON"},
		{"f.json", "{\"a\": 1,\n", 1, "ends too early"},
		{"f.json", "{} {}", 1, "more text"},
		{"f.json", "{\"a\": 1e999}", 1, "too large"},
		{"f.yaml", "a: .nan", 1, "finite"},
		{"f.yaml", "a: &x 1\nb: *x\n", 1, "anchor"},
		{"f.yaml", "a: 1\n---\nb: 2\n", 2, "more than one"},
		{"f.yaml", "[a]: 1\n", 1, "not plain text"},
		{"f.yaml", "a: \xff\xfe\n", 0, "UTF-8"},
		{"f.yaml", "a: " + deep, 1, "levels"},
		{"f.json", "{\"a\": " + deep + "}", 1, "levels"},
		{"f.json", "{\"a\": [" + strings.Repeat("1,", maxNodes) + "1]}", 1, "more than"},
		{"f.yaml", "a: " + strings.Repeat("x", MaxBytes), 0, "1 MiB"},
		{"f.toml", "a = 1", 0, ".toml"},
		{"conf", "a: 1", 0, "no extension"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := ReadFile(path)
		var e *Error
		require.ErrorAs(t, err, &e, "%s %.40q", c.name, c.text)
		require.Contains(t, e.Msg, c.contains, "%.40q", c.text)
		require.Equal(t, c.line, e.Line, "%s %.40q: %v", c.name, c.text, err)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadFile(filepath.Join(dir, "absent.yaml"))
	require.ErrorContains(t, err, "does not exist")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir.yaml"), 0o700))
	_, err = ReadFile(filepath.Join(dir, "dir.yaml"))
	require.ErrorContains(t, err, "not a regular file")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	_, err = ReadFile(filepath.Join(dir, "pipe.yaml"))
	require.ErrorContains(t, err, "not a regular file")
	if os.Getuid() != 0 {
		closed := filepath.Join(dir, "closed.yaml")
		require.NoError(t, os.WriteFile(closed, []byte("a: 1"), 0o000))
		_, err = ReadFile(closed)
		require.ErrorContains(t, err, "mode")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1", "{}", "{\"a\": [1, \"\\ud83d\\ude00\"]}", "a: &x [1]\nb: *x", "- 1", "a: !!binary aGk=", "a: 2026-01-01", "? [a]\n: b", "a: 0x1F\nb: 1_000\nc: ~", "<<: {a: 1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) (Node, error){ParseYAML, ParseJSON} {
			n, err := parse(data)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("error of type %T", err)
				}
				continue
			}
			if n.Kind != Map {
				t.Fatalf("top is %s", n.Kind)
			}
			if _, err := json.Marshal(n.Any()); err != nil {
				t.Fatalf("does not marshal: %v", err)
			}
		}
	})
}
