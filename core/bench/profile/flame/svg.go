package flame

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode/utf8"
)

// Graph is what to draw.
type Graph struct {
	Title string
	// Format shows a value for people.
	Format func(value int64) string
	Stacks []Stack
}

// The measures of a graph in pixels.
const (
	width     = 1600.0
	rowHeight = 17
	head      = 36  // above the boxes, for the title
	narrowest = 0.5 // what is narrower is left out
	charWidth = 6.6 // of the font, on average
)

// box is a function in its place.
type box struct {
	*node
	x, wide float64
	depth   int
}

// WriteSVG draws the graph. Without anything counted it has the one box of the whole, which
// says so.
func (g Graph) WriteSVG(w io.Writer) error {
	root := grow(g.Stacks)
	boxes := place(root)
	deepest := 0
	for _, b := range boxes {
		deepest = max(deepest, b.depth)
	}
	height := head + (deepest+1)*rowHeight
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%d" viewBox="0 0 %g %d" font-family="monospace" font-size="11">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="4" y="22" font-size="15">%s</text>
`, width, height, width, height, escape(g.Title))
	for _, b := range boxes {
		y := height - (b.depth+1)*rowHeight
		fmt.Fprintf(out, `<g><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>`,
			escape(g.tip(b.node, root.value)), b.x, y, b.wide, rowHeight-1, colour(b.name))
		if text := shorten(b.name, int((b.wide-6)/charWidth)); text != "" {
			fmt.Fprintf(out, `<text x="%.2f" y="%d">%s</text>`, b.x+3, y+rowHeight-5, escape(text))
		}
		fmt.Fprintln(out, `</g>`)
	}
	fmt.Fprintln(out, `</svg>`)
	return out.Flush()
}

// place lays the boxes of the tree out, callers before what they call.
func place(root *node) []box {
	boxes := []box{{node: root, wide: width}}
	for i := 0; i < len(boxes); i++ {
		b := boxes[i]
		x := b.x
		for _, c := range b.sorted() {
			wide := width * float64(c.value) / float64(root.value)
			if wide >= narrowest {
				boxes = append(boxes, box{node: c, x: x, wide: wide, depth: b.depth + 1})
			}
			x += wide
		}
	}
	return boxes
}

// tip is what pointing at a box shows.
func (g Graph) tip(n *node, whole int64) string {
	if whole == 0 {
		return "nothing was counted"
	}
	return fmt.Sprintf("%s: %s, %.2f %%", n.name, g.Format(n.value), 100*float64(n.value)/float64(whole))
}

// shorten cuts a function's name to n characters: the folders of its package go first, and a
// name of which too little would be left is not shown.
func shorten(name string, n int) string {
	if utf8.RuneCountInString(name) > n {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	switch r := []rune(name); {
	case len(r) <= n:
		return name
	case n < 4:
		return ""
	default:
		return string(r[:n-2]) + ".."
	}
}

// colour is warm, and the same for all functions of a package.
func colour(name string) string {
	slash := strings.LastIndexByte(name, '/') + 1
	pkg, _, _ := strings.Cut(name[slash:], ".")
	h := fnv.New32a()
	_, _ = io.WriteString(h, name[:slash]+pkg) // A hash does not fail.
	s := h.Sum32()
	return fmt.Sprintf("#%02x%02x%02x", 205+s%50, 110+s/50%110, 60+s/5500%60)
}

// escape makes any text fit for XML; what XML cannot hold becomes U+FFFD.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // A strings.Builder does not fail.
	return b.String()
}
