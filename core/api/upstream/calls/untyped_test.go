package calls

// untyped is a call whose messages have any type.
type untyped interface {
	Function
	hashes(v Version) (request, response uint32)
}

func (c *Call[Q, R]) hashes(v Version) (request, response uint32) {
	c.describe()
	return c.schemas[v-oldest].request.Hash, c.schemas[v-oldest].response.Hash
}
