package output

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlag(t *testing.T) {
	var f Format
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Flag(fs, &f, "", Table, JSON, YAML)
	assert.Equal(t, Table, f, "the first is the default")
	assert.Contains(t, fs.FlagUsages(), `-o, --output string   table, json or yaml (default "table")`)
	require.NoError(t, fs.Parse([]string{"-o", "json"}))
	assert.Equal(t, JSON, f)
	require.ErrorContains(t, fs.Parse([]string{"--output=xml"}), `output format "xml" is not one of [table json yaml]`)
}

func TestPrint(t *testing.T) {
	for format, want := range map[Format]string{Text: "text\n", JSON: "{\n  \"a\": \"<1>\"\n}\n", YAML: "a: <1>\n"} {
		var out bytes.Buffer
		require.NoError(t, Print(&out, format, map[string]string{"a": "<1>"}, func(w io.Writer) { fmt.Fprintln(w, "text") }))
		assert.Equal(t, want, out.String(), format)
	}
	closed, w := io.Pipe()
	require.NoError(t, closed.Close())
	assert.ErrorIs(t, Print(w, Text, nil, func(w io.Writer) { fmt.Fprintln(w, "text") }), io.ErrClosedPipe)
}

func TestColumns(t *testing.T) {
	c := NewColumns("NAME", "SIZE")
	c.Row("a\x1b[31m\tb", 1)
	c.Row("c", "")
	var out bytes.Buffer
	require.NoError(t, c.Write(&out))
	assert.Equal(t, "NAME      SIZE\na\uFFFD[31m b  1\nc         \n", out.String())
	assert.Equal(t, "-", Dash(""))
}
