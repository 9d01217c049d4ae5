package transport

// As finds a companion interface of a transport or a path, such as Upstream, Changing or
// Railed. It looks through wrappers, which tell what they wrap with Unwrap() any.
func As[T any](x any) (T, bool) {
	for {
		if t, ok := x.(T); ok {
			return t, true
		}
		w, ok := x.(interface{ Unwrap() any })
		if !ok {
			var none T
			return none, false
		}
		x = w.Unwrap()
	}
}
