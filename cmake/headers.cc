// Nothing: the target of this file has the precompiled headers of the rooms.
