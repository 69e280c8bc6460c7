"""Processing as released with a model: tokenizer, chat template and media of its folder.

Reading order: `files.py` (what is read of the folder), `template.py` (conversations to text),
`chat.py` (text to tokens, and which of them are learnt), `media.py` (how media are processed, by
classes that families name), `images.py`.
"""
