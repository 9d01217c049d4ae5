package flame_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/profile/flame"
)

// drawing is what a reader of the SVG finds.
type drawing struct {
	XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	Height  int      `xml:"height,attr"`
	Title   string   `xml:"text"`
	Boxes   []struct {
		Title string `xml:"title"`
		Rect  struct {
			X     float64 `xml:"x,attr"`
			Y     int     `xml:"y,attr"`
			Width float64 `xml:"width,attr"`
		} `xml:"rect"`
		Text string `xml:"text"`
	} `xml:"g"`
}

func draw(t *testing.T, title string, stacks ...flame.Stack) drawing {
	t.Helper()
	var out bytes.Buffer
	g := flame.Graph{Title: title, Stacks: stacks, Format: func(v int64) string { return fmt.Sprint(v, " units") }}
	require.NoError(t, g.WriteSVG(&out))
	var d drawing
	require.NoError(t, xml.Unmarshal(out.Bytes(), &d), out.String())
	return d
}

func stack(value int64, frames ...string) flame.Stack {
	return flame.Stack{Frames: frames, Value: value}
}

// TestWidthsAreShares: and a box stands on its caller, within it.
func TestWidthsAreShares(t *testing.T) {
	d := draw(t, "cpu", stack(30, "main", "a"), stack(10, "main", "b", "c"), stack(20, "main"), stack(40, "other"))
	require.Len(t, d.Boxes, 6)
	at := map[string]int{}
	for i, b := range d.Boxes {
		at[strings.SplitN(b.Title, ":", 2)[0]] = i
	}
	whole := d.Boxes[at["all"]].Rect.Width
	for name, share := range map[string]float64{"all": 1, "main": 0.6, "a": 0.3, "b": 0.1, "c": 0.1, "other": 0.4} {
		assert.InDelta(t, share, d.Boxes[at[name]].Rect.Width/whole, 1e-4, name)
	}
	for child, parent := range map[string]string{"main": "all", "other": "all", "a": "main", "b": "main", "c": "b"} {
		c, p := d.Boxes[at[child]].Rect, d.Boxes[at[parent]].Rect
		assert.Equal(t, p.Y-17, c.Y, "%s on %s", child, parent)
		assert.GreaterOrEqual(t, c.X, p.X-0.01, child)
		assert.LessOrEqual(t, c.X+c.Width, p.X+p.Width+0.01, child)
	}
	a, b := d.Boxes[at["a"]].Rect, d.Boxes[at["b"]].Rect
	assert.InDelta(t, a.X+a.Width, b.X, 0.02, "side by side")
	assert.Equal(t, "main: 60 units, 60.00 %", d.Boxes[at["main"]].Title)
	for _, box := range d.Boxes {
		assert.GreaterOrEqual(t, box.Rect.Y, 0)
		assert.LessOrEqual(t, box.Rect.Y+16, d.Height)
	}
}

// TestHostileNames: what a name holds is shown and is not markup.
func TestHostileNames(t *testing.T) {
	names := []string{`</title><script>alert(1)</script>`, `a"b'c&d<e>`, "]]>", "\x00\x1b[2J", "bad \xff utf-8", "ünï/cöde.Fünc", ""}
	for _, name := range names {
		d := draw(t, name, stack(1, name))
		require.Len(t, d.Boxes, 2, "%q", name)
		want := strings.NewReplacer("\x00", "\ufffd", "\x1b", "\ufffd", "\xff", "\ufffd").Replace(name)
		assert.Equal(t, want+": 1 units, 100.00 %", d.Boxes[1].Title)
		assert.Equal(t, want, d.Title)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	long := "example.com/some/folder/pkg.(*Type)." + strings.Repeat("Long", 100)
	d := draw(t, "", stack(1, long))
	assert.True(t, strings.HasPrefix(d.Boxes[1].Text, "pkg.(*Type).Long"), d.Boxes[1].Text)
	assert.True(t, strings.HasSuffix(d.Boxes[1].Text, ".."))
	assert.Contains(t, d.Boxes[1].Title, long, "the whole name is in the tip")

	d = draw(t, "", stack(999, "wide"), stack(1, "narrow"))
	require.Len(t, d.Boxes, 3)
	assert.Equal(t, "narrow: 1 units, 0.10 %", d.Boxes[1].Title)
	assert.Empty(t, d.Boxes[1].Text)
}

// TestWhatCannotBeSeenIsLeftOut: a profile of a million stacks is no file of a million boxes.
func TestWhatCannotBeSeenIsLeftOut(t *testing.T) {
	stacks := []flame.Stack{stack(1e6, "wide")}
	for i := range 1000 {
		stacks = append(stacks, stack(1, fmt.Sprint("thin", i)))
	}
	d := draw(t, "", stacks...)
	assert.Len(t, d.Boxes, 2)
	assert.InDelta(t, 1600*1e6/(1e6+1000.), d.Boxes[1].Rect.Width, 0.1, "but it counts")
}

func TestNothingCounted(t *testing.T) {
	d := draw(t, "empty", stack(0, "a"), stack(-5, "b"))
	require.Len(t, d.Boxes, 1)
	assert.Equal(t, "nothing was counted", d.Boxes[0].Title)
}
