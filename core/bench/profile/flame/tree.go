package flame

import (
	"maps"
	"slices"
)

// Stack is a call stack, outermost function first, and what was counted in it.
type Stack struct {
	Frames []string
	Value  int64
}

// node is a function as called by its parent.
type node struct {
	name     string
	value    int64 // with all below
	children map[string]*node
}

// grow merges stacks into a tree. Stacks without anything counted are left out.
func grow(stacks []Stack) *node {
	root := &node{name: "all"}
	for _, s := range stacks {
		if s.Value <= 0 {
			continue
		}
		root.value += s.Value
		at := root
		for _, f := range s.Frames {
			next := at.children[f]
			if next == nil {
				if at.children == nil {
					at.children = map[string]*node{}
				}
				next = &node{name: f}
				at.children[f] = next
			}
			next.value += s.Value
			at = next
		}
	}
	return root
}

// sorted are the children by name, so that two graphs of one program look alike.
func (n *node) sorted() []*node {
	out := make([]*node, 0, len(n.children))
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		out = append(out, n.children[name])
	}
	return out
}
