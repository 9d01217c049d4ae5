package prefix

// A class is what tells objects apart before their age does. It is set when the request
// that used the object last is over: by how often the object was used so far, how many
// pages the request added to what was known, and whether the object was the request's
// last page, which is rarely full and so rarely comes back.
const (
	useSteps  = 6
	sizeSteps = 5
	lastPage  = useSteps * sizeSteps // the end of a request of several pages
	lonePage  = lastPage + 1         // a request of one page, one class for each use step
	classes   = lonePage + useSteps

	maxUses = 15 // what a ghost can store
)

// classOf returns the class of an object that was used `uses` times, after a request of
// `pages` pages of which `added` were never seen before.
func classOf(uses uint8, pages, added uint32, last bool) uint8 {
	u := step(uint32(uses), 2, 3, 4, 7, maxUses)
	switch {
	case pages == 1:
		return lonePage + u
	case last:
		return lastPage
	}
	return u*sizeSteps + step(added, 4, 9, 21, 51)
}

// step returns how many of the bounds n reaches.
func step(n uint32, bounds ...uint32) (s uint8) {
	for _, b := range bounds {
		if n < b {
			break
		}
		s++
	}
	return s
}
