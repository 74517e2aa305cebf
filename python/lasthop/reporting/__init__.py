"""The page of `lasthop report`: a folder of results as one file that opens offline."""
