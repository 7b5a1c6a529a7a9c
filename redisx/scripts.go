package redisx

import (
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The scripts. Their files say what the keys, arguments and replies are.
var (
	//go:embed common.lua
	commonLua string
	//go:embed reserve.lua
	reserveLua string
	//go:embed renew.lua
	renewLua string
	//go:embed replace.lua
	replaceLua string
	//go:embed release.lua
	releaseLua string
	//go:embed load.lua
	loadLua string
	//go:embed erase.lua
	eraseLua string
	//go:embed hold.lua
	holdLua string
	//go:embed resolve.lua
	resolveLua string
	//go:embed list.lua
	listLua string
)

type scripts struct {
	reserve, renew, replace, release, load, erase, hold, resolve, list *redis.Script
}

func newScripts() scripts {
	return scripts{
		reserve: newScript(reserveLua),
		renew:   newScript(renewLua),
		replace: newScript(replaceLua),
		release: newScript(releaseLua),
		load:    newScript(loadLua),
		erase:   newScript(eraseLua),
		hold:    newScript(holdLua),
		resolve: newScript(resolveLua),
		list:    newScript(listLua),
	}
}

// newScript puts in front of a script what every script needs.
func newScript(lua string) *redis.Script {
	return redis.NewScript("local VERSION = " + strconv.Itoa(recordVersion) + "\n" + commonLua + "\n" + lua)
}
