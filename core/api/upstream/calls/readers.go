package calls

// Readers returns the versions whose clients can read a response that is for clients of v.
func (c *Call[Q, R]) Readers(v Version) (s Versions) {
	if !c.versions.Has(v) {
		return 0
	}
	c.describe()
	for i := range c.schemas {
		if w := oldest + Version(i); c.versions.Has(w) && c.schemas[i].response.Hash == c.schemas[v-oldest].response.Hash {
			s |= Only(w)
		}
	}
	return s
}
