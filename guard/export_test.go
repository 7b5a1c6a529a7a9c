package guard

// HashedName is the name under which a key is stored with [WithHashedKeys].
func HashedName(operation, name string) string { return Key{operation, name}.hashed().Name }
