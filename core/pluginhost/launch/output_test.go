package launch

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func pumped(text string) (*output, string) {
	log := &record{}
	o := &output{logger: slog.New(slog.NewTextHandler(log, nil)), keep: 3}
	o.pump(strings.NewReader(text))
	return o, log.String()
}

func TestOutputBecomesRecords(t *testing.T) {
	for in, want := range map[string]string{
		`plain words`: `level=INFO msg="plain words"`,
		`{"time":"x","level":"WARN","msg":"slow","ms":3,"a":"b"}`: `level=WARN msg=slow a=b ms=3`,
		`{"@message":"old","@level":"error","k":1}`:               `level=ERROR msg=old k=1`,
		`{"msg":5}`:                      `level=INFO msg="{\"msg\":5}"`,
		`{"@message":{},"@timestamp":7}`: `level=INFO msg="{\"@message\":{},\"@timestamp\":7}"`,
		`{"msg":"x","level":"loud"}`:     `level=INFO msg=x`,
		"panic: ouch":                    `level=ERROR msg="panic: ouch"`,
		"red \x1b[31malert\x07":          `level=INFO msg="red [31malert"`,
		"\xff\xfe":                       `msg=?`,
	} {
		_, log := pumped(in + "\n")
		assert.Contains(t, log, want, in)
	}
}

func TestOutputIsBounded(t *testing.T) {
	o, log := pumped(strings.Repeat("a\n", 10) + strings.Repeat("b", 3*maxLine) + "\nlast without newline")
	assert.Equal(t, []string{"a", strings.Repeat("b", maxTailLine), "last without newline"}, o.lines())
	assert.Less(t, strings.Count(log, "b"), maxLine+100)

	many := `{"msg":"m"`
	for i := range 100 {
		many += `,"k` + strings.Repeat("x", i) + `":1`
	}
	_, log = pumped(many + "}\n")
	assert.Equal(t, maxAttrs, strings.Count(log, "=1 ")+strings.Count(log, "=1\n"))

	colours, _ := pumped(`{"msg":"m","k":"\u001b[2J","n":{"\u0007":"\u009b2J"}}` + "\n")
	assert.Equal(t, []string{"m k=[2J n=map[:2J]"}, colours.lines(), "control sequences in attributes do not reach a terminal either")

	n, err := o.Write([]byte("x\r\n\ny"))
	assert.NoError(t, err)
	assert.Equal(t, 5, n)
	assert.Equal(t, []string{"last without newline", "x", "y"}, o.lines())
}

func FuzzOutput(f *testing.F) {
	for _, s := range []string{"x\n", `{"msg":"a","level":"INFO"}`, `{"@message":5}`, "{\n}", "\x00\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, _ := pumped(string(text))
		_, _ = o.Write(text)
		if len(o.lines()) > 3 {
			t.Fatal("kept too many lines")
		}
		for _, l := range o.lines() {
			if !utf8.ValidString(printable(l)) || strings.ContainsRune(l, 0x1b) {
				t.Fatalf("unsafe line %q", l)
			}
		}
	})
}

func TestPrintedLinesAreBounded(t *testing.T) {
	long := strings.Repeat("a", maxPrinted)
	for in, want := range map[string][]string{
		"one\ntwo":                {"one", "two"},
		long + "\nb\n":            {long, "", "b"},
		long + "b\nc":             {long, "b", "c"},
		"a\n" + long + long + "b": {"a", long, long, "b"},
		"":                        nil,
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			var got []string
			scanner := bufio.NewScanner(&lines{ReadCloser: io.NopCloser(r)})
			for scanner.Scan() {
				got = append(got, scanner.Text())
			}
			require.NoError(t, scanner.Err())
			assert.Equal(t, want, got)
		}
	}
}

// TestAPluginMayPrintWithoutEnd: the host reads all output, so that the plugin does not block.
func TestAPluginMayPrintWithoutEnd(t *testing.T) {
	p, policy, _ := start(t, `{"print": 500000}`)
	_, err := policy.Stats(t.Context())
	require.NoError(t, err)
	select {
	case <-p.Done():
		t.Fatal(p.Ending())
	default:
	}
}
