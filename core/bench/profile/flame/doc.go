// Package flame draws call stacks as a flame graph: one SVG file that needs no script and no
// other file, in which a box is a function, its width the share of the whole that was spent in
// it and in what it called, and the box below it its caller. Pointing at a box shows its name
// and figures.
package flame
